// The innermost product for each precision: one word of LANES output channels times one word of a row.
#pragma once

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "simd.hpp"

namespace dragoman {

struct MultiplyFp32 {
    using Sums = Floats;
    static void add(Sums& sums, const uint32_t* weights, uint32_t word) {
        float x;
        std::memcpy(&x, &word, 4);
        sums += load(reinterpret_cast<const float*>(weights)) * x;
    }
};

struct MultiplyBf16 {
    using Sums = Floats;
    static void add(Sums& sums, const uint32_t* weights, uint32_t word) {
#ifdef __AVX512BF16__
        sums = Sums(_mm512_dpbf16_ps(__m512(sums), (__m512bh)_mm512_loadu_si512(weights),
                                     (__m512bh)_mm512_set1_epi32(int(word))));
#else
        Words w;
        std::memcpy(&w, weights, sizeof w);
        const Words low = w << 16, high = w & 0xFFFF0000u;
        Floats even, odd;
        std::memcpy(&even, &low, sizeof even);
        std::memcpy(&odd, &high, sizeof odd);
        sums += even * from_bf16(Bf16(word));
        sums += odd * from_bf16(Bf16(word >> 16));
#endif
    }
};

// 128 is added to stored weights, because the processor multiplies unsigned bytes by signed bytes.
struct MultiplyInt8 {
    using Sums = Ints;
    static void add(Sums& sums, const uint32_t* weights, uint32_t word) {
#ifdef __AVX512VNNI__
        sums = Sums(_mm512_dpbusd_epi32(__m512i(sums), _mm512_loadu_si512(weights), _mm512_set1_epi32(int(word))));
#elif defined(__AVX2__)
        // Bytes 0 and 2 (`even`), and bytes 1 and 3 (`odd`), as signed 16-bit integers.
        const __m256i x = _mm256_set1_epi32(int(word));
        const __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8), odd = _mm256_srai_epi16(x, 8);
        const __m256i w = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights));
        const __m256i low = _mm256_and_si256(w, _mm256_set1_epi16(255)), high = _mm256_srli_epi16(w, 8);
        sums += Sums(_mm256_madd_epi16(low, even)) + Sums(_mm256_madd_epi16(high, odd));
#else
        Ints w;
        std::memcpy(&w, weights, sizeof w);
        for (int byte = 0; byte < 4; ++byte) sums += ((w >> (8 * byte)) & 255) * int32_t(int8_t(word >> (8 * byte)));
#endif
    }
};

}  // namespace dragoman
