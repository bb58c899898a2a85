// Beam search with continuous batching: dragoman.search.beam, one worker a core.
#pragma once

#include <atomic>

#include "sentence.hpp"

namespace dragoman {

// `Cell` is what keys and values are kept in: float, or bf16 where the weights are not float32 either.
template <class Cell>
class Worker {
  public:
    Worker(const Model& model, const SearchConfig& config, const Shortlist* shortlist, Positions positions,
           int team_size)
        : model_(model),
          config_(config),
          shortlist_(shortlist),
          scratch_(team_size, std::move(positions)),
          pool_(int(model.decoder().size()), config.beam, model.config().d_model) {}

    // Take requests in `order`, until there are none left or `cancelled`, and put what is found into `results`.
    void run(const std::vector<Request>& requests, const std::vector<size_t>& order, std::atomic<size_t>& next,
             const std::atomic<bool>& cancelled, std::vector<std::vector<Hypothesis>>& results) {
        while (!cancelled) {
            admit(requests, order, next);
            if (active_.empty()) return;
            step();
            search();
            for (size_t i = active_.size(); i-- > 0;)
                if (done(*active_[i])) {
                    finish(*active_[i], results);
                    active_.erase(active_.begin() + std::ptrdiff_t(i));
                }
        }
    }

    // Logits [T, V] after each token of BOS and `target`.
    std::vector<float> logits(const std::vector<int>& source, const std::vector<int>& target) {
        const Request request{source, target, 0, int(target.size())};
        begin({&request}, {0});
        const int vocabulary = model_.config().target_vocabulary;
        std::vector<float> all;
        for (size_t t = 0; t <= target.size(); ++t) {
            step();
            float* row = scratch_.logits.resize(1, vocabulary);
            model_.output().apply(model_.output_rows(1, scratch_), row, scratch_.logits.stride(), scratch_.team);
            all.insert(all.end(), row, row + vocabulary);
            Sentence<Cell>& sentence = *active_[0];
            if (t < target.size()) sentence.tokens[0].push_back(target[t]);
            ++sentence.position;
        }
        pool_.give_back(active_[0]->pages);
        active_.clear();
        return all;
    }

  private:
    // Bring new sentences in when a quarter of the batch is free: encoding several at once is faster.
    void admit(const std::vector<Request>& requests, const std::vector<size_t>& order, std::atomic<size_t>& next) {
        const int most = config_.batch_sentences;
        if (!active_.empty() && int(active_.size()) > most - std::max(1, most / 4)) return;
        int tokens = 0;
        for (const auto& sentence : active_) tokens += int(sentence->request->source.size()) * config_.beam;
        std::vector<const Request*> taken;
        std::vector<size_t> indices;
        while (int(active_.size() + taken.size()) < most) {
            // Alone, a sentence of any length; with others, within the budget. (Another worker may take what is seen
            // here, and leave the next, which is hardly longer.)
            const size_t seen = next.load();
            if (seen >= order.size()) break;
            const Request& request = requests[order[seen]];
            const int more = int(request.source.size()) * config_.beam;
            if (tokens > 0 && tokens + more > config_.batch_tokens) break;
            const size_t mine = next.fetch_add(1);
            if (mine >= order.size()) break;
            taken.push_back(&requests[order[mine]]);
            indices.push_back(order[mine]);
            tokens += int(taken.back()->source.size()) * config_.beam;
        }
        begin(taken, indices);
    }

    void begin(const std::vector<const Request*>& requests, const std::vector<size_t>& indices) {
        if (requests.empty()) return;
        std::vector<int> tokens, starts{0};
        std::vector<std::vector<Memory<Cell>>*> memories;
        for (size_t i = 0; i < requests.size(); ++i) {
            auto sentence = std::make_unique<Sentence<Cell>>();
            sentence->index = indices[i];
            sentence->request = requests[i];
            sentence->memory.resize(model_.decoder().size());
            if (shortlist_) {
                sentence->allowed = shortlist_->allowed(*requests[i]);
                sentence->output = model_.output().select(sentence->allowed);
            }
            sentence->tokens.resize(1);
            sentence->ancestry.resize(1);
            sentence->log_probability = {0.0f};
            tokens.insert(tokens.end(), requests[i]->source.begin(), requests[i]->source.end());
            starts.push_back(int(tokens.size()));
            memories.push_back(&sentence->memory);
            active_.push_back(std::move(sentence));
        }
        model_.encode(tokens, starts, memories, scratch_);
    }

    // One position of every hypothesis of every sentence: the residual stream's last state in scratch_.x.
    void step() {
        const int width = model_.config().d_model;
        int rows = 0;
        for (const auto& sentence : active_) rows += sentence->hypotheses();
        float* x = scratch_.x.resize(rows, width);
        const int stride = scratch_.x.stride();
        int row = 0;
        for (auto& sentence : active_) {
            if (sentence->position % PAGE == 0) sentence->pages.push_back(pool_.take());
            for (int h = 0; h < sentence->hypotheses(); ++h, ++row) {
                sentence->ancestry[h].push_back(uint16_t(h));
                const auto& said = sentence->tokens[h];
                model_.embed(said.empty() ? BOS : said.back(), sentence->position, false, scratch_,
                             x + size_t(row) * stride);
            }
        }
        for (size_t i = 0; i < model_.decoder().size(); ++i) {
            const DecoderLayer& layer = model_.decoder()[i];
            attend_to_past(layer, int(i), rows);
            attend_to_memory(layer, int(i), rows);
            model_.feed_forward(layer.feed_forward, layer.feed_forward_norm, rows, scratch_);
        }
        rows_ = rows;
    }

    void attend_to_past(const DecoderLayer& layer, int number, int rows) {
        const int width = model_.config().d_model, heads = model_.config().heads;
        float* normed = model_.before(layer.self_norm, rows, scratch_);
        const int stride = scratch_.x.stride();
        float* projected = scratch_.projected.resize(rows, 3 * width);
        const int wide = scratch_.projected.stride();
        layer.query_key_value.apply(scratch_.rows.convert(normed, rows, stride, width, model_.precision()), projected,
                                    wide, scratch_.team);
        float* attended = scratch_.attended.resize(rows, width);
        int row = 0;
        for (auto& sentence : active_) {
            const int position = sentence->position;
            Cell* here = sentence->pages.back().get() + pool_.offset(number, position);
            for (int h = 0; h < sentence->hypotheses(); ++h) {
                float* p = projected + size_t(row + h) * wide;
                model_.rotate(p, position, 2, scratch_);
                for (int d = 0; d < 2 * width; ++d) put(here[size_t(h) * 2 * width + d], p[width + d]);
            }
            for (int h = 0; h < sentence->hypotheses(); ++h, ++row) {
                follow(*sentence, h, number);
                attend_along(projected + size_t(row) * wide, past_, attended + size_t(row) * stride, width, heads,
                             scratch_.scores);
            }
        }
        model_.add(layer.self_output, attended, width, rows, layer.self_norm, scratch_);
    }

    // Where a hypothesis's own past stands, position by position through its ancestry.
    void follow(const Sentence<Cell>& sentence, int hypothesis, int layer) {
        const auto& ancestry = sentence.ancestry[size_t(hypothesis)];
        const size_t both = size_t(2 * model_.config().d_model);
        past_.resize(ancestry.size());
        for (size_t t = 0; t < ancestry.size(); ++t)
            past_[t] = sentence.pages[t / PAGE].get() + pool_.offset(layer, int(t)) + ancestry[t] * both;
    }

    void attend_to_memory(const DecoderLayer& layer, int number, int rows) {
        const int width = model_.config().d_model;
        float* normed = model_.before(layer.memory_norm, rows, scratch_);
        const int stride = scratch_.x.stride();
        float* query = scratch_.projected.resize(rows, width);
        assert_same(scratch_.projected.stride(), stride);
        layer.memory_query.apply(scratch_.rows.convert(normed, rows, stride, width, model_.precision()), query, stride,
                                 scratch_.team);
        float* attended = scratch_.attended.resize(rows, width);
        int row = 0;
        for (auto& sentence : active_) {
            const int count = sentence->hypotheses();
            attend(query + size_t(row) * stride, sentence->memory[size_t(number)], attended + size_t(row) * stride,
                   count, stride, width, model_.config().heads, scratch_.scores);
            row += count;
        }
        model_.add(layer.memory_output, attended, width, rows, layer.memory_norm, scratch_);
    }

    static void assert_same(int a, int b) {
        if (a != b) throw std::logic_error("rows of one width have two strides");
    }

    // Project onto the vocabulary, some rows at a time so that their logits stay in the cache, and advance.
    void search() {
        const Rows states = model_.output_rows(rows_, scratch_);
        best_.resize(size_t(rows_));
        special_.resize(size_t(rows_));
        owner_.clear();
        for (size_t i = 0; i < active_.size(); ++i) owner_.insert(owner_.end(), size_t(active_[i]->hypotheses()), i);
        for (int first = 0; first < rows_;) {
            const Sentence<Cell>& sentence = *active_[owner_[size_t(first)]];
            // Rows of sentences that may use all tokens go together; others by sentence.
            int count = 1;
            const auto together = [&](int row) {
                const Sentence<Cell>& other = *active_[owner_[size_t(row)]];
                return sentence.output.out() ? &other == &sentence : other.output.out() == 0 && count < LOGIT_ROWS;
            };
            while (first + count < rows_ && together(first + count)) ++count;
            const Linear& output = sentence.output.out() ? sentence.output : model_.output();
            float* logits = scratch_.logits.resize(count, output.out());
            const int stride = scratch_.logits.stride();
            output.apply(states.part(first, count), logits, stride, scratch_.team);
            for (int r = 0; r < count; ++r)
                look(*active_[owner_[size_t(first + r)]], logits + size_t(r) * stride, output.out(), size_t(first + r));
            first += count;
        }
        size_t row = 0;
        for (auto& each : active_) {
            const size_t count = size_t(each->hypotheses());
            advance(*each, row);
            row += count;
        }
    }

    // The best of one row, [vocabulary] or the allowed part of it; that of EOS (or of a forced token) is kept apart.
    void look(const Sentence<Cell>& sentence, float* row, int vocabulary, size_t number) {
        const Request& request = *sentence.request;
        const int position = sentence.position;
        const bool forced = position < int(request.prefix.size());
        const auto& allowed = sentence.allowed;
        const int token = forced ? request.prefix[size_t(position)] : EOS;
        const auto place =
            allowed.empty() ? token : std::lower_bound(allowed.begin(), allowed.end(), token) - allowed.begin();
        special_[number] = row[place];
        // Four more than are wanted, as PAD, UNK, BOS and EOS may be among them.
        Best& best = best_[number];
        best.find(row, vocabulary, std::min(2 * config_.beam + 4, vocabulary));
        if (!std::isfinite(best.log_normaliser)) throw std::domain_error("a probability is not a number");
        if (allowed.empty()) return;
        for (auto& each : best.logits) each.second = allowed[size_t(each.second)];
        best.argmax = allowed[size_t(best.argmax)];
    }

    // dragoman.search.beam._advance, for one sentence.
    void advance(Sentence<Cell>& sentence, size_t first_row) {
        const Request& request = *sentence.request;
        const int position = sentence.position, beam = config_.beam;
        const bool forced = position < int(request.prefix.size()), at_limit = position >= request.maximum;
        auto& candidates = candidates_;
        candidates.clear();
        for (int h = 0; h < sentence.hypotheses(); ++h) {
            const Best& best = best_[first_row + size_t(h)];
            const float so_far = sentence.log_probability[size_t(h)];
            const auto consider = [&](float logit, int token) {
                candidates.push_back({so_far + (logit - best.log_normaliser), token, h});
            };
            if (forced)
                consider(special_[first_row + size_t(h)], request.prefix[size_t(position)]);
            else if (at_limit)
                consider(special_[first_row + size_t(h)], EOS);
            else
                for (const auto& [logit, token] : best.logits)
                    if (token > EOS || (token == EOS && position >= request.minimum)) consider(logit, token);
        }
        const size_t looked_at = std::min(candidates.size(), size_t(2 * beam));
        std::partial_sort(candidates.begin(), candidates.begin() + std::ptrdiff_t(looked_at), candidates.end(),
                          [](const Candidate& a, const Candidate& b) { return a.log_probability > b.log_probability; });
        std::vector<std::vector<int>> tokens;
        std::vector<std::vector<uint16_t>> ancestry;
        std::vector<float> log_probability;
        for (size_t i = 0; i < looked_at; ++i) {
            const Candidate& each = candidates[i];
            if (each.token == EOS) {
                if (int(i) < beam) end(sentence, each, best_[first_row + size_t(each.parent)]);
            } else if (int(tokens.size()) < beam) {
                tokens.push_back(sentence.tokens[size_t(each.parent)]);
                tokens.back().push_back(each.token);
                ancestry.push_back(sentence.ancestry[size_t(each.parent)]);
                log_probability.push_back(each.log_probability);
            }
        }
        sentence.tokens = std::move(tokens);
        sentence.ancestry = std::move(ancestry);
        sentence.log_probability = std::move(log_probability);
        ++sentence.position;
    }

    void end(Sentence<Cell>& sentence, const Candidate& candidate, const Best& parent) {
        const int position = sentence.position;
        Hypothesis hypothesis{sentence.tokens[size_t(candidate.parent)], candidate.log_probability,
                              candidate.log_probability / length_penalty(position + 1, config_.length_penalty),
                              parent.argmax == EOS || position < sentence.request->maximum};
        auto& finished = sentence.finished;
        auto place = finished.end();
        while (place != finished.begin() && (place - 1)->score < hypothesis.score) --place;
        finished.insert(place, std::move(hypothesis));
        if (int(finished.size()) > config_.beam) finished.pop_back();
    }

    // dragoman.search.beam._decided, after `advance`.
    bool done(const Sentence<Cell>& sentence) const {
        const int last = sentence.position - 1;
        if (sentence.hypotheses() == 0 || last >= sentence.request->maximum) return true;
        if (int(sentence.finished.size()) < config_.n_best) return false;
        const float needed = sentence.finished[size_t(config_.n_best) - 1].score;
        const float running = sentence.log_probability[0], alpha = config_.length_penalty;
        if (needed >= running / length_penalty(sentence.request->maximum + 1, alpha)) return true;
        return int(sentence.finished.size()) == config_.beam && needed >= running / length_penalty(last + 1, alpha);
    }

    void finish(Sentence<Cell>& sentence, std::vector<std::vector<Hypothesis>>& results) {
        auto& finished = sentence.finished;
        if (int(finished.size()) > config_.n_best) finished.resize(size_t(config_.n_best));
        results[sentence.index] = std::move(finished);
        pool_.give_back(sentence.pages);
    }

    static constexpr int LOGIT_ROWS = 36;

    const Model& model_;
    const SearchConfig config_;
    const Shortlist* const shortlist_;  // or null
    Scratch scratch_;
    PagePool<Cell> pool_;
    std::vector<std::unique_ptr<Sentence<Cell>>> active_;
    int rows_ = 0;
    std::vector<Best> best_;
    std::vector<float> special_;  // [row]: the logit of EOS, or of the token that is forced
    std::vector<size_t> owner_;   // [row]: which sentence it belongs to
    std::vector<Candidate> candidates_;
    std::vector<const Cell*> past_;
};

}  // namespace dragoman
