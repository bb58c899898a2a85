// The extension module that dragoman.native.backend and dragoman.native.language_backend use. It receives weights and
// token ids, and returns hypotheses, logits and tokens; it reads no files and handles no text.
#include "crew.hpp"
#include "language_module.hpp"
#include "live_module.hpp"
#include "python.hpp"
#include "search.hpp"

using namespace dragoman;

namespace {

// Read the settings; `values` has the keys of ModelSettings.
ModelSettings settings_of(const py::dict& values) {
    const auto number = [&](const char* key) { return required<int>(values, key); };
    const ModelSettings settings{
        layer_settings_of(values),   number("source_vocabulary"),
        number("target_vocabulary"), number("encoder_layers"),
        number("decoder_layers"),    tied_embeddings_of(required<std::string>(values, "tied_embeddings"))};
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

// Build a model; `weights` returns the array of a name, or None.
std::unique_ptr<Model> load_model(const py::dict& settings, const py::dict& special_tokens, const py::function& weights,
                                  const std::string& precision) {
    const ModelSettings checked = settings_of(settings);
    const SpecialTokens special = special_tokens_of(special_tokens, checked);
    return load_from(weights, [&](const ReadWeight& read) {
        return std::make_unique<Model>(checked, special, read, precision_of(precision));
    });
}

std::vector<py::list> search(Model& model, const std::vector<std::vector<int>>& sources,
                             const std::vector<std::vector<int>>& prefixes, const std::vector<int>& minimum,
                             const std::vector<int>& maximum, int beam, int n_best, float length_penalty,
                             int64_t batch_sentences, int64_t batch_tokens, int threads, int team,
                             const Shortlist* shortlist) {
    const dragoman::SearchConfig config{beam, n_best, length_penalty};
    const BatchLimits limits{batch_sentences, batch_tokens};
    check(config);
    check(limits);
    require_between("threads", threads, 1, MOST_THREADS);
    require_between("team", team, 1, MOST_THREADS);
    const size_t count = sources.size();
    if (prefixes.size() != count || minimum.size() != count || maximum.size() != count)
        throw std::invalid_argument("the numbers of sources, prefixes and lengths differ");
    std::vector<Task> tasks;
    for (size_t i = 0; i < count; ++i) {
        tasks.push_back({{sources[i], prefixes[i], minimum[i], maximum[i]}, config});
        check(tasks.back().request, model.settings().source_vocabulary, model.settings().target_vocabulary);
    }
    Queue queue(tasks, limits);
    if (shortlist) model.allow_selection();
    run_together(threads, queue.cancelled(), [&] {
        with_stepper(model, team, queue.cancelled(),
                     [&](auto& stepper) { Worker(stepper, model.special(), shortlist, queue).run(); });
    });
    std::vector<py::list> outputs;
    for (size_t i = 0; i < count; ++i) outputs.push_back(as_python(queue.results(i)));
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
        with_stepper(model, 1, cancelled, [&](auto& stepper) {
            const auto states = stepper.start({{source, 1, {}}});
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
    define_live_search(m);
    define_language_model(m);
}
