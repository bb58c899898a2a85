// The innermost product for each precision: one word of LANES output channels times one word of a row.
#pragma once

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include <type_traits>

#include "rows.hpp"

namespace dragoman {

// A tile of a product: rows by vectors of channels. Its sums fill most of the registers; weights, rows and products use
// the others.
template <int ROWS, int VECTORS>
struct TileOf {
    static constexpr int rows = ROWS, vectors = VECTORS;
};
using WideTile = std::conditional_t<REGISTERS == 32, TileOf<6, 4>, TileOf<3, 4>>;

struct MultiplyFp32 {
    using Tile = WideTile;
    using Sums = Floats;
    static void add(Sums& sums, const uint32_t* weights, uint32_t word) {
        float x;
        std::memcpy(&x, &word, 4);
        sums += load(reinterpret_cast<const float*>(weights)) * x;
    }
};

struct MultiplyBf16 {
    using Tile = WideTile;
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

// `INT8_OFFSET` is added to stored weights; without it, weights and rows are between -127 and 127.
struct MultiplyInt8 {
    using Tile = std::conditional_t<REGISTERS == 32, TileOf<6, 4>, TileOf<5, 2>>;
    using Sums = Ints;
    static void add(Sums& sums, const uint32_t* weights, uint32_t word) {
#ifdef __AVX512VNNI__
        sums = Sums(_mm512_dpbusd_epi32(__m512i(sums), _mm512_loadu_si512(weights), _mm512_set1_epi32(int(word))));
#elif defined(__AVX2__)
        // w x = |w| (x with the sign of w): the processor multiplies unsigned bytes by signed bytes. The sums of two
        // products, at most 2 · 127², fit into 16 bits.
        const __m256i w = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights));
        const __m256i x = _mm256_sign_epi8(_mm256_set1_epi32(int(word)), w);
        const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), x);
        sums += Sums(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
#else
        Ints w;
        std::memcpy(&w, weights, sizeof w);
        for (int byte = 0; byte < 4; ++byte)
            sums += (Ints(Words(w) << (24 - 8 * byte)) >> 24) * int32_t(int8_t(word >> (8 * byte)));
#endif
    }
};

}  // namespace dragoman
