// Vectors that fill a register, in the compiler's vector types: the same source serves every instruction set.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace dragoman {

#if defined(__AVX512F__)
constexpr int LANES = 16, REGISTERS = 32;
#elif defined(__AVX2__)
constexpr int LANES = 8, REGISTERS = 16;
#else
constexpr int LANES = 4, REGISTERS = 32;
#endif

using Floats = float __attribute__((vector_size(4 * LANES)));
using Ints = int32_t __attribute__((vector_size(4 * LANES)));
using Words = uint32_t __attribute__((vector_size(4 * LANES)));
using Halves = uint16_t __attribute__((vector_size(2 * LANES)));
using Bytes = int8_t __attribute__((vector_size(LANES)));

constexpr float INFINITE = std::numeric_limits<float>::infinity();
// Value of padding where the maximum is computed.
constexpr float LOWEST = std::numeric_limits<float>::lowest();

// Round up to a multiple of LANES; rows are padded to it, so that loops need no remainder.
constexpr int padded(int n) { return (n + LANES - 1) / LANES * LANES; }

inline Floats load(const float* from) {
    Floats v;
    std::memcpy(&v, from, sizeof v);
    return v;
}

inline void store(float* to, Floats v) { std::memcpy(to, &v, sizeof v); }

inline Floats splat(float x) { return Floats{} + x; }

inline Ints splat(int32_t x) { return Ints{} + x; }

inline Floats maximum(Floats a, Floats b) { return a > b ? a : b; }

// Combine all lanes pairwise, in an order that depends on the number of lanes only.
template <class Combine>
inline float across(Floats v, Combine combine) {
    using Four = float __attribute__((vector_size(16)));
    Four four;
#if defined(__AVX512F__) || defined(__AVX2__)
    using Eight = float __attribute__((vector_size(32)));
#if defined(__AVX512F__)
    const Eight eight = combine(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7),
                                __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15));
#else
    const Eight eight = v;
#endif
    four =
        combine(__builtin_shufflevector(eight, eight, 0, 1, 2, 3), __builtin_shufflevector(eight, eight, 4, 5, 6, 7));
#else
    four = v;
#endif
    const Four two = combine(four, __builtin_shufflevector(four, four, 2, 3, 0, 1));
    return combine(two, __builtin_shufflevector(two, two, 1, 0, 3, 2))[0];
}

inline float sum(Floats v) {
    return across(v, [](auto a, auto b) { return a + b; });
}

inline float largest(Floats v) {
    return across(v, [](auto a, auto b) { return a > b ? a : b; });
}

[[noreturn]] inline void throw_not_finite() {
    throw std::domain_error(
        "the model computes numbers that are not finite: its training diverged or its weights are damaged");
}

// Checks that all values are finite. The bits of a magnitude, read as an integer, increase with it up to infinity and
// NaN, so that only the maximum needs to be compared.
class FiniteCheck {
  public:
    void add(Floats v) {
        Ints bits;
        std::memcpy(&bits, &v, sizeof bits);
        bits &= 0x7FFFFFFF;
        greatest_ = bits > greatest_ ? bits : greatest_;
    }

    // Throw unless all added values are finite.
    void require() const {
        int32_t greatest = 0;
        for (int i = 0; i < LANES; ++i) greatest = greatest_[i] > greatest ? greatest_[i] : greatest;
        if (greatest >= 0x7F800000) throw_not_finite();
    }

  private:
    Ints greatest_ = splat(int32_t(0));
};

inline void require_finite(const float* x, int count) {
    FiniteCheck check;
    int i = 0;
    for (; i + LANES <= count; i += LANES) check.add(load(x + i));
    for (; i < count; ++i) check.add(splat(x[i]));
    check.require();
}

// bf16: the upper 16 bits of a float, rounded to nearest, ties to even.
using Bf16 = uint16_t;

inline Bf16 to_bf16(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    return Bf16((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

inline float from_bf16(Bf16 x) {
    const uint32_t bits = uint32_t(x) << 16;
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}

inline Floats load(const Bf16* from) {
    Halves halves;
    std::memcpy(&halves, from, sizeof halves);
    const Words bits = __builtin_convertvector(halves, Words) << 16;
    Floats v;
    std::memcpy(&v, &bits, sizeof v);
    return v;
}

inline void store(Bf16* to, Floats v) {
    Words bits;
    std::memcpy(&bits, &v, sizeof bits);
    const Halves halves = __builtin_convertvector((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16, Halves);
    std::memcpy(to, &halves, sizeof halves);
}

inline float get(float x) { return x; }
inline float get(Bf16 x) { return from_bf16(x); }
inline void put(float& to, float x) { to = x; }
inline void put(Bf16& to, float x) { to = to_bf16(x); }

// Round to the nearest integer, ties to even, for |x| < 2^22: adding 1.5 · 2^23 removes the fraction.
inline Ints nearest(Floats x) {
    const Floats shifted = x + 12582912.0f;
    Ints bits;
    std::memcpy(&bits, &shifted, sizeof bits);
    return bits - 0x4B400000;
}

// e^x to about one unit in the last place: 2^n · e^r with |r| <= ln 2 / 2, and a Taylor polynomial for e^r.
inline Floats exponential(Floats x) {
    x = x < splat(-87.0f) ? splat(-87.0f) : x;
    x = x > splat(88.0f) ? splat(88.0f) : x;
    const Ints n = nearest(x * 1.44269504088896341f);
    const Floats whole = __builtin_convertvector(n, Floats);
    const Floats r = x - whole * 0.693359375f + whole * 2.12194440e-4f;
    Floats p = splat(1.0f / 5040);
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    const Ints power = (n + 127) << 23;
    Floats scale;
    std::memcpy(&scale, &power, sizeof scale);
    return p * scale;
}

}  // namespace dragoman
