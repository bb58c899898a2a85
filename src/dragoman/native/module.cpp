// The extension module that dragoman.native.backend uses. It receives weights and token ids, and returns hypotheses; it
// reads no files and handles no text.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <numeric>

#include "crew.hpp"
#include "search.hpp"

namespace py = pybind11;
using namespace dragoman;

namespace {

// Return the value of a key; throw an error that names the key if it is missing or has another type.
template <class Value>
Value required(const py::dict& values, const char* key) {
    if (!values.contains(key)) throw std::invalid_argument(std::string("the setting ") + key + " is missing");
    try {
        return values[key].cast<Value>();
    } catch (const py::cast_error&) {
        throw std::invalid_argument(std::string(key) + " is out of range or of another type");
    }
}

// Read the settings; `values` has the keys of ModelSettings, and norms, activations etc. are strings.
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
                                 required<double>(values, "position_base"),
                                 required<float>(values, "attention_scale"),
                                 tied_embeddings_of(name("tied_embeddings")),
                                 activation,
                                 gated};
    check(settings);
    return settings;
}

// Read the special tokens; `values` has the keys of SpecialTokens.
SpecialTokens special_tokens_of(const py::dict& values, const ModelSettings& settings) {
    const SpecialTokens tokens{required<int>(values, "bos"), required<int>(values, "eos"),
                               required<std::vector<int>>(values, "never_generated")};
    check(tokens, settings.target_vocabulary);
    return tokens;
}

// Convert a weight returned by Python: an array of float32, or None.
Weight weight_of(const std::string& name, const py::object& value) {
    if (value.is_none()) return {};
    if (!py::isinstance<py::array_t<float>>(value)) throw std::invalid_argument(name + " is not an array of float32");
    const auto array = py::array_t<float, py::array::c_style>::ensure(value);
    if (!array) throw py::error_already_set();
    return {{array.data(), array.data() + array.size()}, {array.shape(), array.shape() + array.ndim()}, true};
}

// Build a model; `weights` returns the array of a name, or None.
std::unique_ptr<Model> load_model(const py::dict& settings, const py::dict& special_tokens, const py::function& weights,
                                  const std::string& precision) {
    CancelFlag cancelled{false};
    const Running running(cancelled);  // reading a file releases Python's lock
    const auto read = [&](const std::string& name) {
        if (cancelled) Running::throw_closed();
        return weight_of(name, weights(name));
    };
    const ModelSettings checked = settings_of(settings);
    return std::make_unique<Model>(checked, special_tokens_of(special_tokens, checked), read, precision_of(precision));
}

// Call `function` with a stepper whose keys and values are stored as float for weights in float32, else as bf16.
template <class Function>
void with_stepper(Model& model, int beam, int team, const CancelFlag& cancelled, const Function& function) {
    if (model.precision() == Precision::fp32) {
        Stepper<float> stepper(model, beam, team, cancelled);
        function(stepper);
    } else {
        Stepper<Bf16> stepper(model, beam, team, cancelled);
        function(stepper);
    }
}

std::vector<std::vector<py::tuple>> search(Model& model, const std::vector<std::vector<int>>& sources,
                                           const std::vector<std::vector<int>>& prefixes,
                                           const std::vector<int>& minimum, const std::vector<int>& maximum, int beam,
                                           int n_best, float length_penalty, int64_t batch_sentences,
                                           int64_t batch_tokens, int threads, int team, const Shortlist* shortlist) {
    const dragoman::SearchConfig config{beam, n_best, length_penalty};
    const BatchLimits limits{batch_sentences, batch_tokens};
    check(config);
    check(limits);
    require_between("threads", threads, 1, MOST_THREADS);
    require_between("team", team, 1, MOST_THREADS);
    const size_t count = sources.size();
    if (prefixes.size() != count || minimum.size() != count || maximum.size() != count)
        throw std::invalid_argument("the numbers of sources, prefixes and lengths differ");
    std::vector<Request> requests;
    for (size_t i = 0; i < count; ++i) {
        requests.push_back({sources[i], prefixes[i], minimum[i], maximum[i]});
        check(requests.back(), model.settings().source_vocabulary, model.settings().target_vocabulary);
    }
    // Longest first, so that no long sentence is started last.
    Queue queue{requests, std::vector<size_t>(count)};
    std::iota(queue.order.begin(), queue.order.end(), size_t(0));
    std::stable_sort(queue.order.begin(), queue.order.end(),
                     [&](size_t a, size_t b) { return sources[a].size() > sources[b].size(); });
    std::vector<std::vector<Hypothesis>> results(count);
    if (shortlist) model.allow_selection();
    run_together(threads, queue.cancelled, [&] {
        with_stepper(model, beam, team, queue.cancelled, [&](auto& stepper) {
            Worker worker(stepper, model.special(), config, limits, shortlist);
            worker.run(queue, results);
        });
    });
    std::vector<std::vector<py::tuple>> outputs(count);
    for (size_t i = 0; i < count; ++i)
        for (const auto& each : results[i])
            outputs[i].push_back(py::make_tuple(each.tokens, each.log_probability, each.score, each.finished));
    return outputs;
}

// Return the logits [T + 1, V] after BOS and after each of T target tokens.
py::array_t<float> logits(Model& model, const std::vector<int>& source, const std::vector<int>& target) {
    const int vocabulary = model.settings().target_vocabulary;
    check_source(source, model.settings().source_vocabulary);
    check(target, vocabulary);
    require_between("the length of a target", int64_t(target.size()), 0, LONGEST);
    py::array_t<float> array({py::ssize_t(target.size() + 1), py::ssize_t(vocabulary)});
    float* to = array.mutable_data();
    CancelFlag cancelled{false};
    run_together(1, cancelled, [&] {
        with_stepper(model, 1, 1, cancelled, [&](auto& stepper) {
            const auto states = stepper.start({{source, {}}});
            for (size_t t = 0; t <= target.size(); ++t, to += vocabulary)
                stepper.step({states[0].get()}, {t == 0 ? model.special().bos : target[t - 1]},
                             [to](size_t, int, const Logits& row) {
                                 require_finite(row.values, row.count);
                                 std::copy(row.values, row.values + row.count, to);
                             });
        });
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
    py::register_local_exception_translator([](std::exception_ptr error) {
        try {
            if (error) std::rethrow_exception(error);
        } catch (const std::domain_error& e) {
            PyErr_SetString(PyExc_FloatingPointError, e.what());
        } catch (const std::length_error&) {
            PyErr_SetString(PyExc_MemoryError, "more memory is needed than can be addressed");
        }
    });
    py::module_::import("atexit").attr("register")(py::cpp_function(&Running::close));
    if (py::hasattr(py::module_::import("os"), "register_at_fork"))
        py::module_::import("os").attr("register_at_fork")(py::arg("after_in_child") =
                                                               py::cpp_function(&Running::forget));
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
