// Activation functions of the feed-forward network, on vectors of LANES floats.
#pragma once

#include "simd.hpp"

namespace dragoman {

enum class Activation { none, relu, gelu, gelu_tanh, silu };

// GELU (Hendrycks and Gimpel, 2016): x · Φ(x), with erf by Abramowitz and Stegun, 7.1.26 (error below 2e-7).
inline Floats gelu(Floats x) {
    const Floats a = (x < splat(0.0f) ? -x : x) * 0.70710678118654752f;
    const Floats t = 1.0f / (1.0f + 0.3275911f * a);
    const Floats poly =
        t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
    const Floats tail = poly * exponential(-a * a);  // 1 - erf(a)
    return 0.5f * x * (x < splat(0.0f) ? tail : 2.0f - tail);
}

// ReLU. Values that are not finite become NaN instead of 0, so that they are detected later.
inline Floats relu(Floats x) { return maximum(x, splat(0.0f)) + x * 0.0f; }

// SiLU, or Swish with β = 1 (Ramachandran et al., 2017): x · σ(x).
inline Floats silu(Floats x) { return x / (1.0f + exponential(-x)); }

// The approximation of GELU by tanh (Hendrycks and Gimpel, 2016): x/2 · (1 + tanh u) = x · σ(2u) with
// u = √(2/π) (x + 0.044715 x³).
inline Floats gelu_tanh(Floats x) {
    return x / (1.0f + exponential(x * (-1.5957691216057308f - 0.07135481282698f * x * x)));
}

inline Floats activate(Activation activation, Floats x) {
    switch (activation) {
        case Activation::none:
            return x;
        case Activation::relu:
            return relu(x);
        case Activation::gelu:
            return gelu(x);
        case Activation::gelu_tanh:
            return gelu_tanh(x);
        case Activation::silu:
            return silu(x);
    }
    __builtin_unreachable();
}

}  // namespace dragoman
