// The classes of the extension module that dragoman.native.language_backend uses.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "crew.hpp"
#include "generate.hpp"
#include "python.hpp"
#include "request.hpp"

namespace dragoman {

// Read the settings; `values` has the keys of LanguageSettings.
inline LanguageSettings language_settings_of(const py::dict& values) {
    const LanguageSettings settings{layer_settings_of(values), required<int>(values, "vocabulary"),
                                    required<int>(values, "layers"), required<bool>(values, "tied_embeddings")};
    check(settings);
    return settings;
}

inline std::unique_ptr<LanguageModel> load_language_model(const py::dict& settings, const py::function& weights,
                                                          const std::string& precision) {
    const LanguageSettings checked = language_settings_of(settings);
    return load_from(weights, [&](const ReadWeight& read) {
        return std::make_unique<LanguageModel>(checked, read, precision_of(precision));
    });
}

// State of several texts after the tokens that a model has read. Immutable, so that any thread may use it: reading
// returns a new state, which shares its memory with the old one.
class TextStates {
  public:
    template <class Cell>
    using Texts = std::vector<TextCache<Cell>>;

    TextStates(const LanguageModel& model, int rows) : model_(model.number()) {
        require_between("rows", rows, 0, LARGEST_BATCH);
        const int layers = model.settings().layers, d_model = model.settings().d_model;
        if (model.precision() == Precision::fp32)
            texts_ = Texts<float>(size_t(rows), TextCache<float>(layers, d_model));
        else
            texts_ = Texts<Bf16>(size_t(rows), TextCache<Bf16>(layers, d_model));
    }

    int rows() const {
        return std::visit([](const auto& texts) { return int(texts.size()); }, texts_);
    }

    // Return the number of tokens that each text has read.
    std::vector<int> lengths() const {
        return std::visit(
            [](const auto& texts) {
                std::vector<int> lengths;
                for (const auto& text : texts) lengths.push_back(text.length());
                return lengths;
            },
            texts_);
    }

    // Return a state with copies of these texts, which may contain a text several times or not at all.
    TextStates reorder(const std::vector<int>& rows) const {
        for (const int row : rows)
            if (row < 0 || row >= this->rows()) throw std::invalid_argument("a row is not in the state");
        TextStates reordered(*this);
        std::visit(
            [&](auto& texts) {
                auto selected = texts;
                selected.clear();
                for (const int row : rows) selected.push_back(texts[size_t(row)]);
                texts = std::move(selected);
            },
            reordered.texts_);
        return reordered;
    }

    // Return a state to whose last positions only later tokens attend.
    TextStates last(int positions) const {
        require_between("positions", positions, 0, LONGEST);
        TextStates kept(*this);
        std::visit(
            [&](auto& texts) {
                for (auto& text : texts) text.keep_last(positions);
            },
            kept.texts_);
        return kept;
    }

    // Throw unless this is a state of `model` with `rows` texts, which may be extended by `count` tokens each.
    void require_fit(const LanguageModel& model, int64_t rows, int64_t count) const {
        if (model_ != model.number()) throw std::invalid_argument("the state belongs to another model");
        if (rows != this->rows())
            throw std::invalid_argument("the state has " + std::to_string(this->rows()) + " rows, not " +
                                        std::to_string(rows));
        for (const int length : lengths()) require_between("the length of a text", length + count, 0, LONGEST);
    }

    // Call `function` with the texts, a vector of TextCache.
    template <class Function>
    void visit(const Function& function) {
        std::visit(function, texts_);
    }

  private:
    uint64_t model_;
    std::variant<Texts<float>, Texts<Bf16>> texts_;
};

using Tokens = py::array_t<int64_t, py::array::c_style>;

// Convert tokens; throw if one is not in the vocabulary.
inline std::vector<int> tokens_of(const Tokens& tokens, int vocabulary) {
    std::vector<int> converted;
    converted.reserve(size_t(tokens.size()));
    for (py::ssize_t i = 0; i < tokens.size(); ++i) {
        const int64_t token = tokens.data()[i];
        if (token < 0 || token >= vocabulary) throw std::invalid_argument("a token is not in the vocabulary");
        converted.push_back(int(token));
    }
    return converted;
}

// Number of threads, and of threads that share the products of each.
struct Threads {
    int workers, team;

    void check() const {
        require_between("threads", workers, 1, MOST_THREADS);
        require_between("team", team, 1, MOST_THREADS);
    }
};

// Call `work(first, last, reader)` for ranges of texts, together all of them, without Python's lock. `tokens` is the
// number of all tokens to be read.
template <class Work>
void share_texts(LanguageModel& model, int rows, Threads threads, int64_t tokens, const Work& work) {
    CancelFlag cancelled{false};
    const int workers = std::min(threads.workers, std::max(1, rows));
    std::atomic<int> next{0};
    const auto take = [&] {
        Reader reader(model, threads.team, cancelled);
        for (int i = next++; i < workers; i = next++)
            work(int(int64_t(rows) * i / workers), int(int64_t(rows) * (i + 1) / workers), reader);
    };
    // Starting a thread takes longer than reading some tokens with a small model.
    constexpr int64_t BRIEF = 200'000'000;
    if (workers == 1 && threads.team == 1 && int64_t(model.bytes()) * tokens < BRIEF)
        run_here(cancelled, take);
    else
        run_together(workers, cancelled, take);
}

// Return pointers to some of the texts.
template <class Text>
std::vector<Text*> pointers(std::vector<Text>& texts, int first, int last) {
    std::vector<Text*> all;
    for (int i = first; i < last; ++i) all.push_back(&texts[size_t(i)]);
    return all;
}

// Read tokens [B, T]; return the logits after the last of them, [B, V], or after each, [B, T, V], and the new state.
inline std::pair<py::array_t<float>, TextStates> read_texts(LanguageModel& model, const Tokens& tokens,
                                                            const TextStates& before, bool all, int threads, int team) {
    if (tokens.ndim() != 2) throw std::invalid_argument("tokens must have two dimensions");
    const int vocabulary = model.settings().vocabulary;
    const py::ssize_t rows = tokens.shape(0), count = tokens.shape(1);
    before.require_fit(model, rows, count);
    if (count == 0) throw std::invalid_argument("there are no tokens to read");
    Threads{threads, team}.check();
    const std::vector<int> ids = tokens_of(tokens, vocabulary);
    py::array_t<float> array = all ? py::array_t<float>({rows, count, py::ssize_t(vocabulary)})
                                   : py::array_t<float>({rows, py::ssize_t(vocabulary)});
    float* const to = array.mutable_data();
    TextStates after(before);
    after.visit([&](auto& texts) {
        share_texts(model, int(rows), {threads, team}, rows * count, [&](int first, int last, Reader& reader) {
            reader.read(pointers(texts, first, last), ids.data() + size_t(first) * count, int(count), all,
                        [&](int i, int t, const float* logits) {
                            require_finite(logits, vocabulary);
                            const size_t row = all ? size_t(first + i) * count + t : size_t(first + i);
                            std::copy_n(logits, vocabulary, to + row * vocabulary);
                        });
        });
    });
    return {std::move(array), std::move(after)};
}

// Read tokens [B, T]; return the log-probabilities of `targets` [B, T], of which targets[b, t] follows tokens[b, t],
// and the new state.
inline std::pair<py::array_t<float>, TextStates> score_texts(LanguageModel& model, const Tokens& tokens,
                                                             const Tokens& targets, const TextStates& before,
                                                             int threads, int team) {
    if (tokens.ndim() != 2 || targets.ndim() != 2) throw std::invalid_argument("tokens must have two dimensions");
    const int vocabulary = model.settings().vocabulary;
    const py::ssize_t rows = tokens.shape(0), count = tokens.shape(1);
    if (targets.shape(0) != rows || targets.shape(1) != count)
        throw std::invalid_argument("tokens and targets have different shapes");
    before.require_fit(model, rows, count);
    Threads{threads, team}.check();
    const std::vector<int> ids = tokens_of(tokens, vocabulary), next = tokens_of(targets, vocabulary);
    py::array_t<float> array({rows, count});
    float* const to = array.mutable_data();
    TextStates after(before);
    after.visit([&](auto& texts) {
        share_texts(model, int(rows), {threads, team}, rows * count, [&](int first, int last, Reader& reader) {
            reader.read(pointers(texts, first, last), ids.data() + size_t(first) * count, int(count), true,
                        [&](int i, int t, float* logits) {
                            const size_t place = size_t(first + i) * count + t;
                            to[place] = logits[next[place]] - log_normaliser(logits, vocabulary);
                        });
        });
    });
    return {std::move(array), std::move(after)};
}

// Read the settings of sampling; `values` has the keys of SamplingSettings.
inline SamplingSettings sampling_of(const py::dict& values) {
    const SamplingSettings settings{required<bool>(values, "greedy"),  required<double>(values, "temperature"),
                                    required<int>(values, "top_k"),    required<double>(values, "top_p"),
                                    required<double>(values, "min_p"), required<float>(values, "repetition_penalty")};
    check(settings);
    return settings;
}

// Extend texts whose last token [B] has not been read, by one token for each column of `uniforms` [B, T]. Return the
// tokens [B, T], their log-probabilities [B, T], and the new state, in which the last token has not been read. A text
// that ends with `end` is not continued: `end` fills its row, with log-probabilities of 0.
inline std::tuple<Tokens, py::array_t<float>, TextStates> generate_texts(
    LanguageModel& model, const Tokens& last_tokens, const TextStates& before,
    const py::array_t<double, py::array::c_style>& uniforms, const py::dict& sampling,
    const std::optional<py::array_t<bool, py::array::c_style>>& occurred, const std::vector<int>& never, int end,
    int threads, int team) {
    const int vocabulary = model.settings().vocabulary;
    const SamplingSettings settings = sampling_of(sampling);
    const bool penalised = settings.repetition_penalty > 1.0f;
    if (last_tokens.ndim() != 1 || uniforms.ndim() != 2 || uniforms.shape(0) != last_tokens.size())
        throw std::invalid_argument("tokens and random numbers have different shapes");
    const py::ssize_t rows = uniforms.shape(0), count = uniforms.shape(1);
    if (penalised &&
        (!occurred || occurred->ndim() != 2 || occurred->shape(0) != rows || occurred->shape(1) != vocabulary))
        throw std::invalid_argument(
            "the tokens that occurred must have a row for each text and a column for each token");
    before.require_fit(model, rows, count);
    Threads{threads, team}.check();
    check(never, vocabulary);
    if (int(std::set<int>(never.begin(), never.end()).size()) == vocabulary)
        throw std::invalid_argument("all tokens of the vocabulary are excluded");
    const double* const random = uniforms.data();
    if (!std::all_of(random, random + uniforms.size(), [](double u) { return u >= 0.0 && u < 1.0; }))
        throw std::invalid_argument("a random number is not in [0, 1)");
    Tokens tokens({rows, count});
    py::array_t<float> log_probabilities({rows, count});
    Continuation continuation{int(count),
                              end,
                              tokens_of(last_tokens, vocabulary),
                              random,
                              {},
                              tokens.mutable_data(),
                              log_probabilities.mutable_data()};
    if (penalised) continuation.occurred.assign(occurred->data(), occurred->data() + occurred->size());
    TextStates after(before);
    after.visit([&](auto& texts) {
        share_texts(model, int(rows), {threads, team}, rows * count, [&](int first, int last, Reader& reader) {
            Sampler sampler(settings, never, vocabulary);
            continue_texts(texts, first, last, continuation, reader, sampler);
        });
    });
    return {std::move(tokens), std::move(log_probabilities), std::move(after)};
}

inline void define_language_model(py::module_& m) {
    py::class_<TextStates>(m, "TextStates", py::module_local())
        .def_property_readonly("lengths", &TextStates::lengths)
        .def("reorder", &TextStates::reorder, py::arg("rows"))
        .def("last", &TextStates::last, py::arg("positions"));
    py::class_<LanguageModel>(m, "LanguageModel", py::module_local())
        .def(py::init(&load_language_model), py::arg("settings"), py::arg("weights"), py::arg("precision"))
        .def_property_readonly("bytes", &LanguageModel::bytes)
        .def(
            "start", [](const LanguageModel& model, int rows) { return TextStates(model, rows); }, py::arg("rows"))
        .def("read", &read_texts, py::arg("tokens"), py::arg("state"), py::kw_only(), py::arg("all"),
             py::arg("threads"), py::arg("team"))
        .def("score", &score_texts, py::arg("tokens"), py::arg("targets"), py::arg("state"), py::kw_only(),
             py::arg("threads"), py::arg("team"))
        .def("generate", &generate_texts, py::arg("last_tokens"), py::arg("state"), py::kw_only(), py::arg("uniforms"),
             py::arg("sampling"), py::arg("occurred"), py::arg("never"), py::arg("end"), py::arg("threads"),
             py::arg("team"));
}

}  // namespace dragoman
