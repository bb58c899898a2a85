// Parts of encoder and decoder layers: norms, residual connections, feed-forward networks, heads.
#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "embedding.hpp"
#include "weights.hpp"

namespace dragoman {

// Buffers of one worker, kept between steps since allocating memory is slow. `x` is the residual stream.
struct Scratch {
    // `table` and `cancelled` must outlive this object.
    Scratch(Precision precision, int team_size, AngleTable& table, const CancelFlag& cancelled)
        : team(team_size, cancelled), table(table), rows(precision) {}

    // Make the angles of this many positions available.
    void ensure_positions(int positions) { angles = table.at_least(positions, angles); }

    Team team;
    AngleTable& table;
    Angles angles;
    Activations x, normed, projected, attended, inner, gated, logits;
    RowBuffer rows;
    std::vector<float> scores;
};

// LayerNorm (Ba et al., 2016): (x - mean) / √(variance + ε) · gain + offset; or RMSNorm (Zhang and Sennrich, 2019):
// x / √(mean of x² + ε) · gain.
class Norm {
  public:
    Norm(const Loader& load, const std::string& name)
        : width_(load.settings.d_model), epsilon_(load.settings.norm_epsilon), gain_(vector(load, name + ".weight")) {
        if (load.settings.norm == NormKind::layer) offset_ = vector(load, name + ".bias");
    }

    // Normalise the first `count` rows; `to` may be equal to `from`.
    void apply(const float* from, float* to, int count, int stride) const {
        for (int r = 0; r < count; ++r, from += stride, to += stride) {
            float mean = 0.0f;
            if (!offset_.empty()) mean = total(from, width_, 0.0f, false) / float(width_);
            const float variance = total(from, width_, mean, true) / float(width_);
            // A square may overflow; dividing by infinity would hide it.
            if (!(variance < INFINITE)) throw_not_finite();
            const float inverse = 1.0f / std::sqrt(variance + epsilon_);
            for (int d = 0; d < width_; d += LANES) {
                Floats v = (load(from + d) - mean) * inverse * load(&gain_[d]);
                if (!offset_.empty()) v += load(&offset_[d]);
                store(to + d, v);
            }
        }
    }

    void apply(Activations& x, int count) const { apply(x.data(), x.data(), count, x.stride()); }

  private:
    static std::vector<float> vector(const Loader& load, const std::string& name) {
        std::vector<float> values = load.vector(name, load.settings.d_model);
        values.resize(size_t(grouped(load.settings.d_model)), 0.0f);
        return values;
    }

    // Return Σ x, or Σ (x - mean)² if `squared`.
    static float total(const float* x, int width, float mean, bool squared) {
        Floats sums = splat(0.0f);
        int d = 0;
        for (; d + LANES <= width; d += LANES) {
            const Floats v = load(x + d) - mean;
            sums += squared ? v * v : v;
        }
        float rest = 0.0f;
        for (; d < width; ++d) rest += squared ? (x[d] - mean) * (x[d] - mean) : x[d];
        return sum(sums) + rest;
    }

    int width_;
    float epsilon_;
    std::vector<float> gain_, offset_;  // offset is empty for RMSNorm
};

// The residual connection around a sub-layer F: x + F(norm(x)) (pre-norm), or norm(x + F(x)) (post-norm).
class Residual {
  public:
    Residual(const Loader& load, const std::string& name)
        : norm_(load, name + ".norm"), placement_(load.settings.norm_placement) {}

    // Return the sub-layer's input.
    Rows input(int rows, Scratch& s) const {
        if (placement_ == NormPlacement::post) return s.rows.convert(s.x, rows);
        s.normed.resize(rows, s.x.width());
        norm_.apply(s.x.data(), s.normed.data(), rows, s.x.stride());
        return s.rows.convert(s.normed, rows);
    }

    // Add the sub-layer's output: the projection `last` of `y`.
    void add(const Linear& last, Activations& y, int rows, Scratch& s) const {
        last.apply(s.rows.convert(y, rows), s.x.data(), s.x.stride(), s.team, Activation::none, true);
        if (placement_ == NormPlacement::post) norm_.apply(s.x, rows);
    }

  private:
    Norm norm_;
    NormPlacement placement_;
};

// activation(x W₁ + b₁) W₂ + b₂ (section 3.3), or gated: (activation(x W_g) · x W₁) W₂ (Shazeer, 2020).
class FeedForward {
  public:
    FeedForward(const Loader& load, const std::string& name)
        : activation_(load.settings.activation), gated_(load.settings.gated), residual_(load, name + "_residual") {
        const int width = load.settings.d_model, d_ff = load.settings.d_ff;
        std::vector<std::string> first{name + ".inner"};
        if (gated_) first.insert(first.begin(), name + ".gate");
        inner_ = load.linear(first, d_ff, width);
        outer_ = load.linear({name + ".outer"}, width, d_ff);
    }

    void apply(int rows, Scratch& s) const {
        const Rows x = residual_.input(rows, s);
        float* inner = s.inner.resize(rows, inner_.out());
        if (!gated_) {
            inner_.apply(x, inner, s.inner.stride(), s.team, activation_);
            return residual_.add(outer_, s.inner, rows, s);
        }
        const int d_ff = outer_.in();
        inner_.apply(x, inner, s.inner.stride(), s.team);
        s.gated.resize(rows, d_ff);
        for (int r = 0; r < rows; ++r) {
            const float* gate = s.inner.row(r);
            float* to = s.gated.row(r);
            int f = 0;
            for (; f + LANES <= d_ff; f += LANES)
                store(to + f, activate(activation_, load(gate + f)) * load(gate + d_ff + f));
            for (; f < d_ff; ++f) to[f] = activate(activation_, splat(gate[f]))[0] * gate[d_ff + f];
        }
        residual_.add(outer_, s.gated, rows, s);
    }

    size_t bytes() const { return inner_.bytes() + outer_.bytes(); }

  private:
    Activation activation_;
    bool gated_;
    Residual residual_;
    Linear inner_, outer_;
};

// The division of d_model among heads, the factor of their attention scores, and the rotation of queries and keys.
struct Heads {
    explicit Heads(const LayerSettings& settings)
        : count(settings.heads),
          d_model(settings.d_model),
          scale(settings.attention_scale),
          rotary(settings.positions == PositionKind::rotary) {}

    // Rotate query and key of a projected row [query | key | value] by its position, if positions are rotary (Su et
    // al., 2021, equation 34).
    void rotate(float* row, int position, const Angles& table) const {
        if (!rotary) return;
        const int d_k = d_model / count;
        const float* angles = table->data() + size_t(position) * d_k;
        for (int d = 0; d < 2 * d_model; d += 2) {
            const float sine = angles[d % d_k], cosine = angles[d % d_k + 1], even = row[d], odd = row[d + 1];
            row[d] = even * cosine - odd * sine;
            row[d + 1] = even * sine + odd * cosine;
        }
    }

    // Rotate a projected row [query | key | value] by its position, and copy its key and value to `cell` [2 D].
    template <class Cell>
    void remember(float* row, int position, const Angles& table, Cell* cell) const {
        rotate(row, position, table);
        for (int d = 0; d < 2 * d_model; ++d) put(cell[d], row[d_model + d]);
    }

    const int count, d_model;
    const float scale;
    const bool rotary;
};

// The projections of self-attention, with the residual connection around them. Between `project` and `add`, the caller
// computes the attention.
class SelfAttention {
  public:
    // `name` and `residual` are the names of the modules.
    SelfAttention(const Loader& load, const std::string& name, const std::string& residual)
        : residual_(load, residual) {
        const int width = load.settings.d_model;
        query_key_value_ = load.linear({name + ".query", name + ".key", name + ".value"}, width, width);
        output_ = load.linear({name + ".output"}, width, width);
    }

    // Project the first rows of `s.x` to `s.projected`, [rows, query | key | value]; make room for `s.attended`.
    void project(int rows, Scratch& s) const {
        const Rows x = residual_.input(rows, s);
        s.projected.resize(rows, query_key_value_.out());
        query_key_value_.apply(x, s.projected.data(), s.projected.stride(), s.team);
        s.attended.resize(rows, output_.in());
    }

    // Add the projection of `s.attended` to `s.x`.
    void add(int rows, Scratch& s) const { residual_.add(output_, s.attended, rows, s); }

    size_t bytes() const { return query_key_value_.bytes() + output_.bytes(); }

  private:
    Residual residual_;
    Linear query_key_value_, output_;
};

}  // namespace dragoman
