// The extension module, for dragoman.native.backend: weights and ids in, hypotheses out; no files, no text.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <numeric>

#include "crew.hpp"
#include "search.hpp"

namespace py = pybind11;
using namespace dragoman;

namespace {

using Array = py::array_t<float, py::array::c_style | py::array::forcecast>;

// The value of a key, or an error that names it.
template <class Value>
Value required(const py::dict& values, const char* key) {
    if (!values.contains(key)) throw std::invalid_argument(std::string("the settings lack ") + key);
    return values[key].cast<Value>();
}

// `values` has the names of ModelSettings; norms, activations and the like are names, too.
ModelSettings settings_of(const py::dict& values) {
    const auto number = [&](const char* key) { return required<int>(values, key); };
    const auto name = [&](const char* key) { return required<std::string>(values, key); };
    const auto [activation, gated] = activation_of(name("activation"));
    const ModelSettings settings{number("source_vocabulary"),
                                 number("target_vocabulary"),
                                 number("encoder_layers"),
                                 number("decoder_layers"),
                                 number("d_model"),
                                 number("heads"),
                                 number("d_ff"),
                                 number("max_positions"),
                                 norm_of(name("norm")),
                                 norm_placement_of(name("norm_placement")),
                                 required<float>(values, "norm_epsilon"),
                                 positions_of(name("positions")),
                                 tied_embeddings_of(name("tied_embeddings")),
                                 activation,
                                 gated};
    check(settings);
    return settings;
}

// `values` has the names of SpecialTokens.
SpecialTokens special_tokens_of(const py::dict& values, const ModelSettings& settings) {
    const SpecialTokens tokens{required<int>(values, "bos"), required<int>(values, "eos"),
                               required<std::vector<int>>(values, "never_generated")};
    check(tokens, settings.target_vocabulary);
    return tokens;
}

// `weights` returns the array [rows, columns] or [columns] of a name, or None.
std::unique_ptr<Model> load_model(const py::dict& settings, const py::dict& special_tokens, const py::function& weights,
                                  const std::string& precision) {
    const auto read = [&weights](const std::string& name) {
        const py::object found = weights(name);
        Weight weight;
        if (found.is_none()) return weight;
        const auto array = found.cast<Array>();
        weight.rows = array.ndim() == 2 ? int(array.shape(0)) : 1;
        weight.columns = int(array.shape(array.ndim() - 1));
        weight.values.assign(array.data(), array.data() + array.size());
        return weight;
    };
    const ModelSettings checked = settings_of(settings);
    return std::make_unique<Model>(checked, special_tokens_of(special_tokens, checked), read, precision_of(precision));
}

void check(const std::vector<int>& tokens, int vocabulary) {
    for (const int token : tokens)
        if (token < 0 || token >= vocabulary) throw std::invalid_argument("a token is not in the vocabulary");
}

// Call `use` with a stepper whose keys and values are as precise as the weights: float beside float, else bf16.
template <class Use>
void with_stepper(const Model& model, const Angles& angles, int beam, int team_size, const Use& use) {
    if (model.precision() == Precision::fp32) {
        Stepper<float> stepper(model, angles, beam, team_size);
        use(stepper);
    } else {
        Stepper<Bf16> stepper(model, angles, beam, team_size);
        use(stepper);
    }
}

std::vector<std::vector<py::tuple>> search(Model& model, const std::vector<std::vector<int>>& sources,
                                           const std::vector<std::vector<int>>& prefixes,
                                           const std::vector<int>& minimum, const std::vector<int>& maximum, int beam,
                                           int n_best, float length_penalty, int batch_sentences, int batch_tokens,
                                           int threads, int team, const Shortlist* shortlist) {
    const size_t count = sources.size();
    if (prefixes.size() != count || minimum.size() != count || maximum.size() != count)
        throw std::invalid_argument("sources, prefixes and lengths differ in number");
    std::vector<Request> requests;
    int longest = 1;
    for (size_t i = 0; i < count; ++i) {
        check(sources[i], model.settings().source_vocabulary);
        check(prefixes[i], model.settings().target_vocabulary);
        requests.push_back({sources[i], prefixes[i], minimum[i], maximum[i]});
        longest = std::max({longest, int(sources[i].size()), maximum[i] + 1});
    }
    // The longest first, so that none of them is left to the end.
    Queue queue{requests, std::vector<size_t>(count)};
    std::iota(queue.order.begin(), queue.order.end(), size_t(0));
    std::stable_sort(queue.order.begin(), queue.order.end(),
                     [&](size_t a, size_t b) { return sources[a].size() > sources[b].size(); });
    std::vector<std::vector<Hypothesis>> results(count);
    const Angles angles = model.angles(longest);
    if (shortlist) model.allow_selection();
    const dragoman::SearchConfig config{beam, n_best, length_penalty};
    const BatchLimits limits{batch_sentences, batch_tokens};
    run_together(threads, queue.cancelled, [&] {
        with_stepper(model, angles, beam, team, [&](auto& stepper) {
            Worker worker(stepper, model.special(), config, limits, shortlist);
            worker.run(queue, results);
        });
    });
    std::vector<std::vector<py::tuple>> found(count);
    for (size_t i = 0; i < count; ++i)
        for (const auto& each : results[i])
            found[i].push_back(py::make_tuple(each.tokens, each.log_probability, each.score, each.finished));
    return found;
}

// Logits [T + 1, V] after BOS and after each of T target tokens.
py::array_t<float> logits(Model& model, const std::vector<int>& source, const std::vector<int>& target) {
    const int vocabulary = model.settings().target_vocabulary;
    check(source, model.settings().source_vocabulary);
    check(target, vocabulary);
    const int longest = int(std::max(source.size(), target.size() + 1));
    py::array_t<float> array({py::ssize_t(target.size() + 1), py::ssize_t(vocabulary)});
    float* to = array.mutable_data();
    with_stepper(model, model.angles(longest), 1, 1, [&](auto& stepper) {
        const auto states = stepper.start({{source, {}}});
        for (size_t t = 0; t <= target.size(); ++t, to += vocabulary)
            stepper.step({states[0].get()}, {t == 0 ? model.special().bos : target[t - 1]},
                         [to](size_t, int, const Logits& row) { std::copy(row.values, row.values + row.count, to); });
    });
    return array;
}

Shortlist shortlist(const Model& model, std::vector<int> always, std::vector<int> likely, std::vector<int> starts) {
    return Shortlist(std::move(always), std::move(likely), std::move(starts), model.settings().target_vocabulary,
                     model.special().eos);
}

}  // namespace

#ifndef DRAGOMAN_MODULE
#error "DRAGOMAN_MODULE names the extension module: see setup.py"
#endif

PYBIND11_MODULE(DRAGOMAN_MODULE, m) {
    py::register_exception_translator([](std::exception_ptr error) {
        try {
            if (error) std::rethrow_exception(error);
        } catch (const std::domain_error& e) {
            PyErr_SetString(PyExc_FloatingPointError, e.what());
        }
    });
    py::class_<Shortlist>(m, "Shortlist", py::module_local());
    py::class_<Model>(m, "Model", py::module_local())
        .def(py::init(&load_model), py::arg("settings"), py::arg("special_tokens"), py::arg("weights"),
             py::arg("precision"))
        .def_property_readonly("bytes", &Model::bytes)
        .def("search", &search, py::kw_only(), py::arg("sources"), py::arg("prefixes"), py::arg("minimum"),
             py::arg("maximum"), py::arg("beam"), py::arg("n_best"), py::arg("length_penalty"),
             py::arg("batch_sentences"), py::arg("batch_tokens"), py::arg("threads"), py::arg("team"),
             py::arg("shortlist").none(true))
        .def("shortlist", &shortlist, py::arg("always"), py::arg("likely"), py::arg("starts"))
        .def("logits", &logits, py::arg("source"), py::arg("target"));
}
