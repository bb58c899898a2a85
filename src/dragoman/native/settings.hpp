// Settings of a model, passed from Python when it is loaded. There are no defaults, and unknown names are errors.
#pragma once

#include <cmath>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "activation.hpp"
#include "rows.hpp"

namespace dragoman {

enum class NormKind { layer, rms };
enum class NormPlacement { post, pre };
enum class PositionKind { sinusoidal, learned, rotary, none };
enum class TiedEmbeddings { none, two_way, three_way };

// The fields of dragoman.models.config.layers.LayerConfig that inference needs.
struct LayerSettings {
    int d_model, heads, d_ff, max_positions;
    NormKind norm;
    NormPlacement norm_placement;
    float norm_epsilon;
    PositionKind positions;
    double position_base;
    float attention_scale;  // factor of QKᵀ
    Activation activation;
    bool gated;  // the feed-forward network multiplies its activations by a second projection (Shazeer, 2020)
};

// The fields of dragoman.models.config.transformer.TransformerConfig that inference needs.
struct ModelSettings : LayerSettings {
    int source_vocabulary, target_vocabulary, encoder_layers, decoder_layers;
    TiedEmbeddings tied_embeddings;
};

// The fields of dragoman.models.config.language.LanguageConfig that inference needs.
struct LanguageSettings : LayerSettings {
    int vocabulary, layers;
    bool tied_embeddings;  // the output projection is the matrix of the token embeddings
};

// Ids of special tokens; see dragoman.text.subwords.
struct SpecialTokens {
    int bos, eos;
    std::vector<int> never_generated;
};

// Return the value of `name` in the table of a setting; throw if it is unknown.
template <class Value>
Value value_of(const std::string& setting, const std::string& name,
               const std::vector<std::pair<std::string, Value>>& table) {
    for (const auto& [choice, value] : table)
        if (choice == name) return value;
    throw std::invalid_argument("unknown " + setting + " '" + name + "'");
}

inline Precision precision_of(const std::string& name) {
    return value_of<Precision>("precision", name,
                               {{"fp32", Precision::fp32}, {"bf16", Precision::bf16}, {"int8", Precision::int8}});
}

inline NormKind norm_of(const std::string& name) {
    return value_of<NormKind>("norm", name, {{"layer", NormKind::layer}, {"rms", NormKind::rms}});
}

inline NormPlacement norm_placement_of(const std::string& name) {
    return value_of<NormPlacement>("norm_placement", name,
                                   {{"post", NormPlacement::post}, {"pre", NormPlacement::pre}});
}

inline PositionKind positions_of(const std::string& name) {
    return value_of<PositionKind>("positions", name,
                                  {{"sinusoidal", PositionKind::sinusoidal},
                                   {"learned", PositionKind::learned},
                                   {"rotary", PositionKind::rotary},
                                   {"none", PositionKind::none}});
}

inline TiedEmbeddings tied_embeddings_of(const std::string& name) {
    return value_of<TiedEmbeddings>("tied_embeddings", name,
                                    {{"none", TiedEmbeddings::none},
                                     {"two-way", TiedEmbeddings::two_way},
                                     {"three-way", TiedEmbeddings::three_way}});
}

// Return the activation function, and true if the feed-forward network is gated.
inline std::pair<Activation, bool> activation_of(const std::string& name) {
    return value_of<std::pair<Activation, bool>>("activation", name,
                                                 {{"relu", {Activation::relu, false}},
                                                  {"gelu", {Activation::gelu, false}},
                                                  {"gelu_tanh", {Activation::gelu_tanh, false}},
                                                  {"geglu", {Activation::gelu, true}},
                                                  {"swiglu", {Activation::silu, true}}});
}

// Largest width of a row: the int32 sum of this many products of an unsigned byte and a value of -127 to 127 does not
// overflow.
constexpr int WIDEST_ROW = 1 << 16;
// Limits within which counters of type int do not overflow.
constexpr int LARGEST_VOCABULARY = 1 << 24, MOST_LAYERS = 1 << 16;

// Throw `what` unless `holds`.
inline void require(bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(what);
}

// Throw unless sizes that are specific to a model can be counted.
inline void check_sizes(std::initializer_list<int> vocabularies, std::initializer_list<int> layers) {
    for (const int size : vocabularies) {
        require(size >= 1, "sizes must be at least 1");
        require(size <= LARGEST_VOCABULARY, "vocabularies and max_positions must be at most 16777216");
    }
    for (const int count : layers) {
        require(count >= 1, "sizes must be at least 1");
        require(count <= MOST_LAYERS, "layers must be at most 65536");
    }
}

// Throw if the settings are not supported by the layout of weights in memory.
inline void check(const LayerSettings& settings) {
    for (const int size : {settings.d_model, settings.heads, settings.d_ff, settings.max_positions})
        require(size >= 1, "sizes must be at least 1");
    for (const int width : {settings.d_model, settings.d_ff})
        require(width <= WIDEST_ROW, "d_model and d_ff must be at most 65536");
    require(settings.max_positions <= LARGEST_VOCABULARY, "vocabularies and max_positions must be at most 16777216");
    require(settings.d_model % settings.heads == 0, "heads must divide d_model");
    require(settings.d_model % 2 == 0, "d_model must be even");
    require(settings.positions != PositionKind::rotary || settings.d_model / settings.heads % 2 == 0,
            "rotary positions need an even d_model / heads");
    require(settings.position_base >= 1.0 && std::isfinite(settings.position_base), "position_base must be at least 1");
    require(settings.attention_scale > 0.0f && settings.attention_scale < INFINITE, "attention_scale must be above 0");
    require(settings.norm_epsilon > 0.0f && settings.norm_epsilon < INFINITE, "norm_epsilon must be above 0");
}

inline void check(const ModelSettings& settings) {
    check(static_cast<const LayerSettings&>(settings));
    check_sizes({settings.source_vocabulary, settings.target_vocabulary},
                {settings.encoder_layers, settings.decoder_layers});
    require(settings.tied_embeddings != TiedEmbeddings::three_way ||
                settings.source_vocabulary == settings.target_vocabulary,
            "three-way tied embeddings need source and target vocabularies of the same size");
}

inline void check(const LanguageSettings& settings) {
    check(static_cast<const LayerSettings&>(settings));
    check_sizes({settings.vocabulary}, {settings.layers});
}

inline void check(const SpecialTokens& tokens, int target_vocabulary) {
    std::vector<int> all{tokens.bos, tokens.eos};
    all.insert(all.end(), tokens.never_generated.begin(), tokens.never_generated.end());
    for (const int token : all)
        if (token < 0 || token >= target_vocabulary)
            throw std::invalid_argument("a special token is not in the target vocabulary");
}

}  // namespace dragoman
