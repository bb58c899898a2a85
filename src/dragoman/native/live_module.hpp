// The class of `LiveSearch` in Python; see dragoman.native.live_search.
#pragma once

#include <exception>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "live.hpp"
#include "python.hpp"

namespace dragoman {

inline py::list as_python(const std::vector<Hypothesis>& hypotheses) {
    py::list list;
    for (const auto& each : hypotheses)
        list.append(py::make_tuple(each.tokens, each.totals, each.log_probability, each.score, each.finished));
    return list;
}

// Return an exception of Python.
inline py::object as_python(const std::exception_ptr& error) {
    const auto made = [](PyObject* type, const char* message) {
        return py::reinterpret_borrow<py::object>(type)(message);
    };
    try {
        std::rethrow_exception(error);
    } catch (const std::domain_error& e) {
        return made(PyExc_FloatingPointError, e.what());
    } catch (const std::out_of_range& e) {
        return made(PyExc_IndexError, e.what());
    } catch (const std::bad_alloc& e) {
        return made(PyExc_MemoryError, e.what());
    } catch (const std::exception& e) {
        return made(PyExc_RuntimeError, e.what());
    }
}

inline std::unique_ptr<LiveSearch> start_live_search(Model& model, int threads, int64_t batch_sentences,
                                                     int64_t batch_tokens, const Shortlist* shortlist) {
    const BatchLimits limits{batch_sentences, batch_tokens};
    check(limits);
    require_between("threads", threads, 1, MOST_THREADS);
    return std::make_unique<LiveSearch>(model, threads, limits, shortlist);
}

// Wait for outcomes; return (ticket, tokens so far or None, hypotheses or an exception or None) of each, or None if
// there will be no more.
inline py::object wait_for_outcomes(LiveSearch& search) {
    std::vector<Outcome> outcomes;
    bool more = false;
    {
        const py::gil_scoped_release unlocked;
        more = search.wait(outcomes);
    }
    if (!more) return py::none();
    py::list list;
    for (const auto& each : outcomes) {
        if (!each.finished)
            list.append(py::make_tuple(each.ticket, each.progress, py::none()));
        else
            list.append(py::make_tuple(each.ticket, py::none(),
                                       each.error ? as_python(each.error) : py::object(as_python(each.hypotheses))));
    }
    return list;
}

inline void close_live_search(LiveSearch& search) {
    CancelFlag cancelled{false};
    // The interpreter's end waits for this call, unless it makes it itself.
    std::optional<Running> running;
    if (!Running::closed()) running.emplace(cancelled);
    const py::gil_scoped_release unlocked;
    search.close();
}

inline void define_live_search(py::module_& m) {
    py::class_<LiveSearch>(m, "LiveSearch", py::module_local())
        .def(py::init(&start_live_search), py::kw_only(), py::arg("model"), py::arg("threads"),
             py::arg("batch_sentences"), py::arg("batch_tokens"), py::arg("shortlist").none(true),
             py::keep_alive<1, 2>(), py::keep_alive<1, 6>())
        .def(
            "submit",
            [](LiveSearch& search, int64_t ticket, int64_t group, std::vector<int> source, std::vector<int> prefix,
               int minimum, int maximum, int beam, int n_best, float length_penalty, bool watched) {
                search.submit(
                    ticket, group,
                    {{std::move(source), std::move(prefix), minimum, maximum}, {beam, n_best, length_penalty}},
                    watched);
            },
            py::kw_only(), py::arg("ticket"), py::arg("group"), py::arg("source"), py::arg("prefix"),
            py::arg("minimum"), py::arg("maximum"), py::arg("beam"), py::arg("n_best"), py::arg("length_penalty"),
            py::arg("watched"))
        .def("cancel", &LiveSearch::cancel, py::arg("ticket"))
        .def("signs", &LiveSearch::signs)
        .def("wait", &wait_for_outcomes)
        .def("close", &close_live_search);
}

}  // namespace dragoman
