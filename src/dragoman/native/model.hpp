// The encoder-decoder Transformer for inference; the reference is dragoman.models.transformer.
#pragma once

#include <mutex>
#include <utility>

#include "decoder.hpp"
#include "encoder.hpp"

namespace dragoman {

class Model {
  public:
    Model(const ModelSettings& settings, const SpecialTokens& special, const ReadWeight& read, Precision precision)
        : Model({read, settings, precision}, settings, special) {}
    Model(const Model&) = delete;

    const ModelSettings& settings() const { return settings_; }
    const SpecialTokens& special() const { return special_; }
    Precision precision() const { return precision_; }
    const Embedding& source_embedding() const { return source_embedding_; }
    const Embedding& target_embedding() const { return target_embedding_; }
    const Encoder& encoder() const { return encoder_; }
    const Decoder& decoder() const { return decoder_; }
    const Linear& output() const { return output_; }

    // Return the size of the packed weights in memory.
    size_t bytes() const {
        return output_.bytes() + target_tokens_.bytes() + source_tokens_.bytes() + encoder_.bytes() + decoder_.bytes();
    }

    // Thread-safe.
    AngleTable& angles() { return angles_; }

    // Prepare the output projection for sentences that use a part of the vocabulary. Call it before workers start.
    void allow_selection() {
        const std::lock_guard<std::mutex> guard(selection_);
        output_.allow_selection();
    }

  private:
    Model(const Loader& load, const ModelSettings& settings, const SpecialTokens& special)
        : settings_(settings),
          special_(special),
          precision_(load.precision),
          output_(
              load.matrix(tied() ? target_name() : "output.weight", settings_.target_vocabulary, settings_.d_model)),
          target_tokens_(tied() ? PackedMatrix()
                                : load.matrix(target_name(), settings_.target_vocabulary, settings_.d_model)),
          source_tokens_(three_way() ? PackedMatrix()
                                     : load.matrix(SOURCE, settings_.source_vocabulary, settings_.d_model)),
          source_embedding_(load, three_way() ? output_.weights() : source_tokens_, "source_embedding",
                            embedding_scale()),
          target_embedding_(load, tied() ? output_.weights() : target_tokens_, "target_embedding", embedding_scale()),
          encoder_(load, settings.encoder_layers),
          decoder_(load, settings.decoder_layers),
          angles_(load.settings) {}

    // Section 3.4
    float embedding_scale() const { return std::sqrt(float(settings_.d_model)); }
    bool tied() const { return settings_.tied_embeddings != TiedEmbeddings::none; }
    bool three_way() const { return settings_.tied_embeddings == TiedEmbeddings::three_way; }

    // Tied weights are stored under the first of their names only.
    static constexpr const char *SOURCE = "source_embedding.tokens.weight", *TARGET = "target_embedding.tokens.weight";
    const char* target_name() const { return three_way() ? SOURCE : TARGET; }

    const ModelSettings settings_;
    const SpecialTokens special_;
    const Precision precision_;
    Linear output_;
    const PackedMatrix target_tokens_, source_tokens_;  // empty where they are tied to the output
    const Embedding source_embedding_, target_embedding_;
    const Encoder encoder_;
    const Decoder decoder_;
    AngleTable angles_;
    std::mutex selection_;
};

}  // namespace dragoman
