// What Python sees: dragoman.native. Weights and ids in, hypotheses out; it knows nothing of files or text.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <numeric>
#include <system_error>
#include <thread>

#include "search.hpp"

namespace py = pybind11;
using namespace dragoman;

namespace {

using Array = py::array_t<float, py::array::c_style | py::array::forcecast>;

Precision precision_of(const std::string& name) {
    if (name == "fp32") return Precision::fp32;
    if (name == "bf16") return Precision::bf16;
    if (name == "int8") return Precision::int8;
    throw std::invalid_argument("unknown precision " + name);
}

Activation activation_of(const std::string& name) {
    if (name == "relu") return Activation::relu;
    if (name == "gelu" || name == "geglu") return Activation::gelu;
    if (name == "swiglu") return Activation::silu;
    throw std::invalid_argument("unknown activation " + name);
}

// `config` is TransformerConfig as a dictionary.
Config config_of(const py::dict& config) {
    const auto number = [&](const char* name) { return config[name].cast<int>(); };
    const auto is = [&](const char* name, const char* value) { return config[name].cast<std::string>() == value; };
    Config c;
    c.source_vocabulary = number("source_vocabulary");
    c.target_vocabulary = number("target_vocabulary");
    c.encoder_layers = number("encoder_layers");
    c.decoder_layers = number("decoder_layers");
    c.d_model = number("d_model");
    c.heads = number("heads");
    c.d_ff = number("d_ff");
    c.max_positions = number("max_positions");
    c.pre_norm = is("norm_placement", "pre");
    c.rms_norm = is("norm", "rms");
    c.gated = is("activation", "geglu") || is("activation", "swiglu");
    c.rotary = is("positions", "rotary");
    c.learned_positions = is("positions", "learned");
    c.tied = is("tied_embeddings", "none")      ? Tied::none
             : is("tied_embeddings", "two-way") ? Tied::two_way
                                                : Tied::three_way;
    c.activation = activation_of(config["activation"].cast<std::string>());
    c.epsilon = 1e-6f;
    return c;
}

// `weights` gives the array [rows, columns] or [columns] of a name, or None.
std::unique_ptr<Model> build(const py::dict& config, const py::function& weights, const std::string& precision) {
    const auto find = [&weights](const std::string& name) {
        const py::object found = weights(name);
        Weight weight;
        if (found.is_none()) return weight;
        const auto array = found.cast<Array>();
        weight.rows = array.ndim() == 2 ? int(array.shape(0)) : 1;
        weight.columns = int(array.shape(array.ndim() - 1));
        weight.values.assign(array.data(), array.data() + array.size());
        return weight;
    };
    return std::make_unique<Model>(config_of(config), find, precision_of(precision));
}

void check(const std::vector<int>& tokens, int vocabulary) {
    for (const int token : tokens)
        if (token < 0 || token >= vocabulary) throw std::invalid_argument("a token beyond the vocabulary");
}

// Run `work` in so many threads, without Python's lock, and let a signal (Ctrl-C) end it by setting `cancelled`.
void run_together(int threads, std::atomic<bool>& cancelled, const std::function<void()>& work) {
    std::mutex lock;
    std::condition_variable ended;
    std::exception_ptr error;
    int left = threads;
    const auto guarded = [&] {
        std::exception_ptr own;
        try {
            work();
        } catch (...) {
            own = std::current_exception();
            cancelled = true;
        }
        const std::lock_guard<std::mutex> guard(lock);
        if (own && !error) error = own;
        if (--left == 0) ended.notify_all();
    };
    bool interrupted = false;
    {
        py::gil_scoped_release unlocked;
        std::vector<std::thread> crew;
        try {
            for (int i = 0; i < threads; ++i) crew.emplace_back(guarded);
        } catch (const std::system_error&) {
            // No more threads are to be had: those that there are do the work.
            const std::lock_guard<std::mutex> guard(lock);
            left -= threads - int(crew.size());
            if (crew.empty()) error = std::current_exception();
        }
        while (true) {
            {
                std::unique_lock<std::mutex> guard(lock);
                if (ended.wait_for(guard, std::chrono::milliseconds(50), [&] { return left == 0; })) break;
            }
            py::gil_scoped_acquire locked;
            if (!interrupted && PyErr_CheckSignals() != 0) cancelled = interrupted = true;
        }
        for (auto& thread : crew) thread.join();
    }
    if (interrupted) throw py::error_already_set();
    if (error) std::rethrow_exception(error);
}

// Keys and values are as exact as the weights: float beside float, else bf16.
template <class Use>
void with_worker(const Model& model, const dragoman::SearchConfig& config, const Shortlist* shortlist,
                 const Positions& positions, int team_size, const Use& use) {
    if (model.precision() == Precision::fp32) {
        Worker<float> worker(model, config, shortlist, positions, team_size);
        use(worker);
    } else {
        Worker<Bf16> worker(model, config, shortlist, positions, team_size);
        use(worker);
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
        check(sources[i], model.config().source_vocabulary);
        check(prefixes[i], model.config().target_vocabulary);
        requests.push_back({sources[i], prefixes[i], minimum[i], maximum[i]});
        longest = std::max({longest, int(sources[i].size()), maximum[i] + 1});
    }
    std::vector<size_t> order(count);
    std::iota(order.begin(), order.end(), size_t(0));
    // The longest first, so that none is left alone at the end.
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return sources[a].size() > sources[b].size(); });
    std::vector<std::vector<Hypothesis>> results(count);
    const Positions positions = model.positions(longest);
    if (shortlist) model.prepare_selection();
    std::atomic<size_t> next{0};
    std::atomic<bool> cancelled{false};
    const dragoman::SearchConfig settings{beam, n_best, length_penalty, batch_sentences, batch_tokens};
    run_together(threads, cancelled, [&] {
        with_worker(model, settings, shortlist, positions, team,
                    [&](auto& worker) { worker.run(requests, order, next, cancelled, results); });
    });
    std::vector<std::vector<py::tuple>> found(count);
    for (size_t i = 0; i < count; ++i)
        for (const auto& each : results[i])
            found[i].push_back(py::make_tuple(each.tokens, each.log_probability, each.score, each.own_end));
    return found;
}

py::array_t<float> logits(Model& model, const std::vector<int>& source, const std::vector<int>& target) {
    check(source, model.config().source_vocabulary);
    check(target, model.config().target_vocabulary);
    const int longest = int(std::max(source.size(), target.size() + 1));
    std::vector<float> values;
    with_worker(model, {1, 1, 0.0f, 1, 1}, nullptr, model.positions(longest), 1,
                [&](auto& worker) { values = worker.logits(source, target); });
    py::array_t<float> array({py::ssize_t(target.size() + 1), py::ssize_t(model.config().target_vocabulary)});
    std::copy(values.begin(), values.end(), array.mutable_data());
    return array;
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
    py::class_<Shortlist>(m, "Shortlist", py::module_local())
        .def(py::init<std::vector<int>, std::vector<int>, std::vector<int>, int>(), py::arg("always"),
             py::arg("likely"), py::arg("starts"), py::arg("target_vocabulary"));
    py::class_<Model>(m, "Model", py::module_local())
        .def(py::init(&build), py::arg("config"), py::arg("weights"), py::arg("precision"))
        .def_property_readonly("bytes", &Model::bytes)
        .def("search", &search, py::kw_only(), py::arg("sources"), py::arg("prefixes"), py::arg("minimum"),
             py::arg("maximum"), py::arg("beam"), py::arg("n_best"), py::arg("length_penalty"),
             py::arg("batch_sentences"), py::arg("batch_tokens"), py::arg("threads"), py::arg("team"),
             py::arg("shortlist").none(true))
        .def("logits", &logits, py::arg("source"), py::arg("target"));
}
