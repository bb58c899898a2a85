// Beam search with continuous batching: dragoman.decoding.beam, one worker a core.
#pragma once

#include <atomic>
#include <memory>

#include "model.hpp"

namespace dragoman {

constexpr int PAD = 0, UNK = 1, BOS = 2, EOS = 3;
// Positions that a page of the cache holds.
constexpr int PAGE = 16;

struct SearchConfig {
    int beam, n_best;
    float length_penalty;
    int batch_sentences, batch_tokens;  // at most so many at a time, and source tokens times beam
};

// One source: its ids and EOS, what its output begins with, and the output's least and greatest length.
struct Request {
    std::vector<int> source, prefix;
    int minimum, maximum;
};

// dragoman.decoding.shortlist.Shortlist
class Shortlist {
  public:
    Shortlist(std::vector<int> always, std::vector<int> likely, std::vector<int> starts, int target_vocabulary)
        : always_(std::move(always)), likely_(std::move(likely)), starts_(std::move(starts)) {
        const auto known = [=](int token) { return token >= 0 && token < target_vocabulary; };
        if (!std::all_of(always_.begin(), always_.end(), known) || !std::all_of(likely_.begin(), likely_.end(), known))
            throw std::invalid_argument("a token beyond the vocabulary");
        if (std::find(always_.begin(), always_.end(), EOS) == always_.end())
            throw std::invalid_argument("a shortlist without the end of a sentence");
        if (starts_.empty() || starts_.front() != 0 || starts_.back() != int(likely_.size()) ||
            !std::is_sorted(starts_.begin(), starts_.end()))
            throw std::invalid_argument("the parts of a shortlist do not follow each other");
    }

    // What the output of a request may use, ascending.
    std::vector<int> allowed(const Request& request) const {
        std::vector<int> tokens(always_);
        tokens.insert(tokens.end(), request.prefix.begin(), request.prefix.end());
        for (const int s : request.source)
            if (size_t(s) + 1 < starts_.size())
                tokens.insert(tokens.end(), likely_.begin() + starts_[size_t(s)],
                              likely_.begin() + starts_[size_t(s) + 1]);
        std::sort(tokens.begin(), tokens.end());
        tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
        return tokens;
    }

  private:
    std::vector<int> always_, likely_, starts_;
};

// dragoman.decoding.search.Hypothesis
struct Hypothesis {
    std::vector<int> tokens;
    float log_probability, score;
    bool own_end;
};

struct Candidate {
    float log_probability;  // of all that was said, with `token`
    int token, parent;
};

// lp(Y) = ((5 + |Y|) / 6)^α (Wu et al., 2016, equation 14)
inline float length_penalty(int length, float alpha) { return float(std::pow((5.0 + length) / 6.0, double(alpha))); }

// Keys and values that the decoder has made of a sentence's hypotheses so far, in pages of PAGE positions.
//
// A page is [layer, position, hypothesis, key or value, D]. It is never copied: when hypotheses branch or die, only
// their ancestry changes, the place at which each of their positions stands.
template <class Cell>
class PagePool {
  public:
    PagePool(int layers, int beam, int d_model)
        : position_(size_t(beam) * 2 * d_model), layer_(PAGE * position_), size_(layers * layer_ + 4 * LANES) {}

    std::unique_ptr<Cell[]> take() {
        if (free_.empty()) return std::unique_ptr<Cell[]>(new Cell[size_]());
        auto page = std::move(free_.back());
        free_.pop_back();
        return page;
    }
    void give_back(std::vector<std::unique_ptr<Cell[]>>& pages) {
        for (auto& page : pages) free_.push_back(std::move(page));
        pages.clear();
    }
    size_t offset(int layer, int position) const { return layer * layer_ + size_t(position % PAGE) * position_; }

  private:
    const size_t position_, layer_, size_;
    std::vector<std::unique_ptr<Cell[]>> free_;
};

// A sentence in the midst of its search.
template <class Cell>
struct Sentence {
    size_t index;
    const Request* request;
    int position = 0;                  // tokens said so far
    std::vector<int> allowed;          // tokens, ascending, EOS among them; none: all are allowed
    Linear output;                     // of the allowed tokens
    std::vector<Memory<Cell>> memory;  // [layer]
    std::vector<std::unique_ptr<Cell[]>> pages;
    std::vector<std::vector<uint16_t>> ancestry;  // [hypothesis][position]: where its keys and values stand
    std::vector<std::vector<int>> tokens;         // [hypothesis][position], best first
    std::vector<float> log_probability;           // [hypothesis]
    std::vector<Hypothesis> finished;             // at most `beam`, best first

    int hypotheses() const { return int(tokens.size()); }
};

// The best continuations of one row of logits, best first, and what turns a logit into a log-probability.
struct Best {
    std::vector<std::pair<float, int>> logits;
    float log_normaliser;
    int argmax;

    // One pass for the greatest and one for Σ exp, over [vocabulary]; `row` has room up to a multiple of LANES.
    void find(float* row, int vocabulary, int wanted) {
        const int end = padded(vocabulary);
        std::fill(row + vocabulary, row + end, -INFINITE);
        logits.clear();
        float least = -INFINITE;
        for (int v = 0; v < end; v += LANES)
            for (uint32_t above = greater(load(row + v), least); above; above &= above - 1) {
                const int i = v + __builtin_ctz(above);
                if (row[i] > least) least = insert(row[i], i, wanted);
            }
        argmax = logits.empty() ? -1 : logits.front().second;
        const float top = logits.empty() ? 0.0f : logits.front().first;
        Floats total = splat(0.0f);
        for (int v = 0; v < end; v += LANES) total += exponential(load(row + v) - top);
        // What was added for the places that are no token.
        log_normaliser = top + std::log(sum(total) - float(end - vocabulary) * exponential(splat(-INFINITE))[0]);
    }

  private:
    // A bit for each value that exceeds `bound`.
    static uint32_t greater(Floats values, float bound) {
#ifdef __AVX512F__
        return _mm512_cmp_ps_mask(__m512(values), _mm512_set1_ps(bound), _CMP_GT_OQ);
#else
        if (!(largest(values) > bound)) return 0;
        uint32_t bits = 0;
        for (int i = 0; i < LANES; ++i) bits |= uint32_t(values[i] > bound) << i;
        return bits;
#endif
    }

    // Keep the `wanted` greatest; returns what a further one must exceed.
    float insert(float logit, int token, int wanted) {
        auto place = logits.end();
        while (place != logits.begin() && (place - 1)->first < logit) --place;
        logits.insert(place, {logit, token});
        if (int(logits.size()) > wanted) logits.pop_back();
        return int(logits.size()) == wanted ? logits.back().first : -INFINITE;
    }
};

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

    // dragoman.decoding.beam._advance, for one sentence.
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

    // dragoman.decoding.beam._decided, after `advance`.
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
