// The encoder-decoder Transformer for inference: dragoman.models.transformer, one row a token.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "attention.hpp"
#include "linear.hpp"

namespace dragoman {

enum class Tied { none, two_way, three_way };

// What config.json says, as far as inference needs it.
struct Config {
    int source_vocabulary, target_vocabulary, encoder_layers, decoder_layers, d_model, heads, d_ff, max_positions;
    bool pre_norm, rms_norm, gated, rotary, learned_positions;
    Tied tied;
    Activation activation;
    float epsilon;
};

// A matrix, or a vector as one row.
struct Weight {
    std::vector<float> values;
    int rows = 0, columns = 0;
};

// Gives the weight of a name, or one without rows: asked for one at a time, so that they are not all in memory.
using Weights = std::function<Weight(const std::string&)>;

// Rows of activations [count, stride]; what lies beyond the width is zero, so that products may read whole vectors.
class Activations {
  public:
    float* resize(int count, int width) {
        stride_ = grouped(width);
        if (data_.size() < size_t(count) * stride_ + LANES) data_.assign(size_t(count) * stride_ + LANES, 0.0f);
        return data_.data();
    }
    float* data() { return data_.data(); }
    int stride() const { return stride_; }

  private:
    std::vector<float> data_;
    int stride_ = 0;
};

struct Norm {
    std::vector<float> gain, offset;  // offset is empty for RMSNorm

    // LayerNorm (Ba et al., 2016) or RMSNorm (Zhang and Sennrich, 2019) of `count` rows; `to` may be `from`.
    void apply(const float* from, float* to, int count, int stride, int width, float epsilon) const {
        for (int r = 0; r < count; ++r, from += stride, to += stride) {
            float mean = 0.0f;
            if (!offset.empty()) mean = total(from, width, 0.0f, false) / float(width);
            const float variance = total(from, width, mean, true) / float(width);
            const float inverse = 1.0f / std::sqrt(variance + epsilon);
            for (int d = 0; d < width; d += LANES) {
                Floats v = (load(from + d) - mean) * inverse * load(&gain[d]);
                if (!offset.empty()) v += load(&offset[d]);
                store(to + d, v);
            }
        }
    }

  private:
    // Σ x, or Σ (x - mean)²
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
};

struct FeedForward {
    Linear inner, outer;  // of a gated network, `inner` yields the gate and then what it lets pass
};

struct EncoderLayer {
    Linear query_key_value, output;
    FeedForward feed_forward;
    Norm attention_norm, feed_forward_norm;
};

struct DecoderLayer {
    Linear query_key_value, self_output, memory_query, memory_key_value, memory_output;
    FeedForward feed_forward;
    Norm self_norm, memory_norm, feed_forward_norm;
};

// Sines and cosines by position: [length, D], or of rotary ones [length, D / H].
using Positions = std::shared_ptr<const std::vector<float>>;

// Buffers of one worker, kept between steps, as fresh memory is dear; who helps it; and the positions it may need.
struct Scratch {
    Scratch(int team_size, Positions table) : team(team_size), positions(std::move(table)) {}

    Team team;
    const Positions positions;
    Activations x, normed, projected, attended, inner, gated, logits;
    RowBuffer rows;
    std::vector<float> scores;
};

class Model {
  public:
    Model(const Config& config, const Weights& weights, Precision precision) : config_(config), precision_(precision) {
        // Tied weights stand under their first name.
        const bool three_way = config.tied == Tied::three_way, tied = config.tied != Tied::none;
        const std::string source = "source_embedding.tokens.weight";
        const std::string target = three_way ? source : "target_embedding.tokens.weight";
        const int width = config.d_model;
        output_ = linear(weights, {tied ? target : "output.weight"}, config.target_vocabulary, width);
        if (!tied) target_tokens_ = linear(weights, {target}, config.target_vocabulary, width);
        if (!three_way) source_tokens_ = linear(weights, {source}, config.source_vocabulary, width);
        target_embedding_ = tied ? &output_ : &target_tokens_;
        source_embedding_ = three_way ? target_embedding_ : &source_tokens_;
        for (int i = 0; i < config.encoder_layers; ++i) encoder_.push_back(encoder_layer(weights, i));
        for (int i = 0; i < config.decoder_layers; ++i) decoder_.push_back(decoder_layer(weights, i));
        if (config.pre_norm) {
            encoder_norm_ = norm(weights, "encoder.final_norm");
            decoder_norm_ = norm(weights, "decoder.final_norm");
        }
        if (config.learned_positions) {
            const int most = config.max_positions;
            source_positions_ = find(weights, "source_embedding.positions.embedding.weight", most, width).values;
            target_positions_ = find(weights, "target_embedding.positions.embedding.weight", most, width).values;
        }
    }

    Model(const Model&) = delete;

    const Config& config() const { return config_; }
    const std::vector<DecoderLayer>& decoder() const { return decoder_; }
    Precision precision() const { return precision_; }

    size_t bytes() const {
        size_t all = output_.bytes() + target_tokens_.bytes() + source_tokens_.bytes();
        for (const auto& layer : encoder_)
            all += layer.query_key_value.bytes() + layer.output.bytes() + layer.feed_forward.inner.bytes() +
                   layer.feed_forward.outer.bytes();
        for (const auto& layer : decoder_)
            all += layer.query_key_value.bytes() + layer.self_output.bytes() + layer.memory_query.bytes() +
                   layer.memory_key_value.bytes() + layer.memory_output.bytes() + layer.feed_forward.inner.bytes() +
                   layer.feed_forward.outer.bytes();
        return all;
    }

    // Make ready for sentences that use a part of the vocabulary; call it before workers read it.
    void prepare_selection() {
        const std::lock_guard<std::mutex> guard(lock_);
        output_.allow_selection();
    }

    // The table of positions, for `length` of them at least; others may be using a shorter one.
    Positions positions(int length) {
        const std::lock_guard<std::mutex> guard(lock_);
        const int width = config_.rotary ? config_.d_model / config_.heads : config_.d_model;
        if (config_.learned_positions || size_t(length) * width <= table_->size()) return table_;
        auto table = std::make_shared<std::vector<float>>(size_t(length) * width);
        for (int p = 0; p < length; ++p)
            for (int d = 0; d < width; d += 2) {
                const double angle = p / std::pow(10'000.0, double(d) / width);
                (*table)[size_t(p) * width + d] = float(std::sin(angle));
                (*table)[size_t(p) * width + d + 1] = float(std::cos(angle));
            }
        return table_ = table;
    }

    // Token embeddings times √d_model, plus positions (section 3.4), into `to` [D].
    void embed(int token, int position, bool of_source, const Scratch& s, float* to) const {
        const int width = config_.d_model;
        (of_source ? source_embedding_ : target_embedding_)->row(token, to);
        const float scale = std::sqrt(float(width));
        const float* added = nullptr;
        if (config_.learned_positions && position >= config_.max_positions)
            throw std::out_of_range("a sequence is longer than the " + std::to_string(config_.max_positions) +
                                    " positions that were learned");
        if (config_.learned_positions)
            added = &(of_source ? source_positions_ : target_positions_)[size_t(position) * width];
        else if (!config_.rotary)
            added = s.positions->data() + size_t(position) * width;
        for (int d = 0; d < width; ++d) to[d] = to[d] * scale + (added ? added[d] : 0.0f);
    }

    // The encoder over several sentences at once; sentence i is tokens[starts[i]] up to tokens[starts[i + 1]].
    // What the decoder's layers will look at goes to memories[i][layer].
    template <class Cell>
    void encode(const std::vector<int>& tokens, const std::vector<int>& starts,
                const std::vector<std::vector<Memory<Cell>>*>& memories, Scratch& s) const {
        const int rows = int(tokens.size()), width = config_.d_model;
        float* x = s.x.resize(rows, width);
        const int stride = s.x.stride();
        for (size_t i = 0; i + 1 < starts.size(); ++i)
            for (int r = starts[i]; r < starts[i + 1]; ++r)
                embed(tokens[r], r - starts[i], true, s, x + size_t(r) * stride);
        Memory<float> own;
        for (const auto& layer : encoder_) {
            float* normed = before(layer.attention_norm, rows, s);
            float* projected = s.projected.resize(rows, 3 * width);
            const int wide = s.projected.stride();
            layer.query_key_value.apply(s.rows.convert(normed, rows, stride, width, precision_), projected, wide,
                                        s.team);
            float* attended = s.attended.resize(rows, width);
            for (size_t i = 0; i + 1 < starts.size(); ++i) {
                const int first = starts[i], length = starts[i + 1] - first;
                float* p = projected + size_t(first) * wide;
                for (int t = 0; t < length; ++t) rotate(p + size_t(t) * wide, t, 2, s);
                own.fill(p + width, p + 2 * width, wide, length, width);
                // Queries become what they attended to: [length, wide] in place, then [length, stride].
                attend(p, own, p, length, wide, width, config_.heads, s.scores);
                for (int t = 0; t < length; ++t)
                    std::copy(p + size_t(t) * wide, p + size_t(t) * wide + width,
                              attended + size_t(first + t) * stride);
            }
            add(layer.output, attended, width, rows, layer.attention_norm, s);
            feed_forward(layer.feed_forward, layer.feed_forward_norm, rows, s);
        }
        if (config_.pre_norm) encoder_norm_.apply(x, x, rows, stride, width, config_.epsilon);
        const Rows states = s.rows.convert(x, rows, stride, width, precision_);
        for (size_t layer = 0; layer < decoder_.size(); ++layer) {
            float* projected = s.projected.resize(rows, 2 * width);
            const int wide = s.projected.stride();
            decoder_[layer].memory_key_value.apply(states, projected, wide, s.team);
            for (size_t i = 0; i + 1 < starts.size(); ++i) {
                const float* p = projected + size_t(starts[i]) * wide;
                (*memories[i])[layer].fill(p, p + width, wide, starts[i + 1] - starts[i], width);
            }
        }
    }

    // The sub-layer's input: the residual stream itself, or its norm (pre-norm).
    float* before(const Norm& norm, int rows, Scratch& s) const {
        if (!config_.pre_norm) return s.x.data();
        float* normed = s.normed.resize(rows, config_.d_model);
        norm.apply(s.x.data(), normed, rows, s.x.stride(), config_.d_model, config_.epsilon);
        return normed;
    }

    // x += y Wᵀ + b, and the norm of it (post-norm).
    void add(const Linear& linear, const float* y, int width, int rows, const Norm& norm, Scratch& s) const {
        const int stride = grouped(width);
        linear.apply(s.rows.convert(y, rows, stride, width, precision_), s.x.data(), s.x.stride(), s.team,
                     Activation::none, true);
        if (!config_.pre_norm) norm.apply(s.x.data(), s.x.data(), rows, s.x.stride(), config_.d_model, config_.epsilon);
    }

    void feed_forward(const FeedForward& network, const Norm& norm, int rows, Scratch& s) const {
        const Rows x = s.rows.convert(before(norm, rows, s), rows, s.x.stride(), config_.d_model, precision_);
        if (!config_.gated) {
            float* inner = s.inner.resize(rows, config_.d_ff);
            network.inner.apply(x, inner, s.inner.stride(), s.team, config_.activation);
            return add(network.outer, inner, config_.d_ff, rows, norm, s);
        }
        float* both = s.inner.resize(rows, 2 * config_.d_ff);
        network.inner.apply(x, both, s.inner.stride(), s.team);
        float* gated = s.gated.resize(rows, config_.d_ff);
        for (int r = 0; r < rows; ++r) {
            const float* gate = both + size_t(r) * s.inner.stride();
            float* to = gated + size_t(r) * s.gated.stride();
            int f = 0;
            for (; f + LANES <= config_.d_ff; f += LANES)
                store(to + f, activated(load(gate + f)) * load(gate + config_.d_ff + f));
            for (; f < config_.d_ff; ++f) to[f] = activated(splat(gate[f]))[0] * gate[config_.d_ff + f];
        }
        add(network.outer, gated, config_.d_ff, rows, norm, s);
    }

    // Turn the first `parts` of [query | key | value] by a position (Su et al., 2021), if the model has rotary ones.
    void rotate(float* x, int position, int parts, const Scratch& s) const {
        if (!config_.rotary) return;
        const int d_k = config_.d_model / config_.heads;
        const float* angles = s.positions->data() + size_t(position) * d_k;
        for (int d = 0; d < parts * config_.d_model; d += 2) {
            const float sine = angles[d % d_k], cosine = angles[d % d_k + 1], even = x[d], odd = x[d + 1];
            x[d] = even * cosine - odd * sine;
            x[d + 1] = even * sine + odd * cosine;
        }
    }

    // The decoder's last norm, and rows ready for `output`.
    Rows output_rows(int rows, Scratch& s) const {
        if (config_.pre_norm)
            decoder_norm_.apply(s.x.data(), s.x.data(), rows, s.x.stride(), config_.d_model, config_.epsilon);
        return s.rows.convert(s.x.data(), rows, s.x.stride(), config_.d_model, precision_);
    }

    const Linear& output() const { return output_; }

  private:
    Floats activated(Floats x) const { return config_.activation == Activation::silu ? silu(x) : gelu(x); }

    static Weight find(const Weights& weights, const std::string& name, int rows, int columns) {
        Weight weight = weights(name);
        const auto shape = [](int r, int c) { return "[" + std::to_string(r) + ", " + std::to_string(c) + "]"; };
        if (weight.rows == 0) throw std::invalid_argument("it lacks " + name);
        if (weight.rows != rows || weight.columns != columns)
            throw std::invalid_argument(name + " has shape " + shape(weight.rows, weight.columns) +
                                        ", but config.json asks for " + shape(rows, columns));
        return weight;
    }

    // Projections of the same rows, each [out, in], become one product; a name is that of a matrix or of its module.
    Linear linear(const Weights& weights, const std::vector<std::string>& names, int out, int in) const {
        std::vector<float> values, bias;
        for (const auto& name : names) {
            const bool matrix = name.size() > 7 && name.compare(name.size() - 7, 7, ".weight") == 0;
            Weight each = find(weights, matrix ? name : name + ".weight", out, in);
            const Weight offset = matrix ? Weight() : weights(name + ".bias");
            if (offset.rows) find(weights, name + ".bias", 1, out);
            bias.insert(bias.end(), offset.values.begin(), offset.values.end());
            if (values.empty())
                values = std::move(each.values);
            else
                values.insert(values.end(), each.values.begin(), each.values.end());
        }
        if (!bias.empty() && bias.size() != names.size() * size_t(out))
            throw std::invalid_argument("a bias is missing");
        return Linear(values.data(), bias.empty() ? nullptr : bias.data(), int(names.size()) * out, in, precision_);
    }

    Norm norm(const Weights& weights, const std::string& name) const {
        const auto vector = [&](const std::string& which) {
            std::vector<float> values = find(weights, name + which, 1, config_.d_model).values;
            values.resize(size_t(grouped(config_.d_model)), 0.0f);
            return values;
        };
        return {vector(".weight"), config_.rms_norm ? std::vector<float>() : vector(".bias")};
    }

    FeedForward network(const Weights& weights, const std::string& name) const {
        const int width = config_.d_model, inner = config_.d_ff;
        std::vector<std::string> first{name + "inner"};
        if (config_.gated) first.insert(first.begin(), name + "gate");
        return {linear(weights, first, inner, width), linear(weights, {name + "outer"}, width, inner)};
    }

    EncoderLayer encoder_layer(const Weights& weights, int i) const {
        const std::string name = "encoder.layers." + std::to_string(i) + ".", own = name + "self_attention.";
        const int width = config_.d_model;
        return {linear(weights, {own + "query", own + "key", own + "value"}, width, width),
                linear(weights, {own + "output"}, width, width), network(weights, name + "feed_forward."),
                norm(weights, name + "attention_residual.norm"), norm(weights, name + "feed_forward_residual.norm")};
    }

    DecoderLayer decoder_layer(const Weights& weights, int i) const {
        const std::string name = "decoder.layers." + std::to_string(i) + ".";
        const std::string own = name + "self_attention.", source = name + "memory_attention.";
        const int width = config_.d_model;
        return {linear(weights, {own + "query", own + "key", own + "value"}, width, width),
                linear(weights, {own + "output"}, width, width),
                linear(weights, {source + "query"}, width, width),
                linear(weights, {source + "key", source + "value"}, width, width),
                linear(weights, {source + "output"}, width, width),
                network(weights, name + "feed_forward."),
                norm(weights, name + "self_residual.norm"),
                norm(weights, name + "memory_residual.norm"),
                norm(weights, name + "feed_forward_residual.norm")};
    }

    const Config config_;
    const Precision precision_;
    Linear output_, target_tokens_, source_tokens_;
    const Linear *target_embedding_, *source_embedding_;
    std::vector<EncoderLayer> encoder_;
    std::vector<DecoderLayer> decoder_;
    Norm encoder_norm_, decoder_norm_;
    std::vector<float> source_positions_, target_positions_;
    Positions table_ = std::make_shared<std::vector<float>>();
    std::mutex lock_;
};

}  // namespace dragoman
