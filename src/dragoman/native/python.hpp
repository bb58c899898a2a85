// Conversion of what Python passes when a model is loaded.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <stdexcept>
#include <string>

#include "running.hpp"
#include "weights.hpp"

namespace dragoman {

namespace py = pybind11;

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

// Read the settings of the layers; `values` has the keys of LayerSettings, and norms, activations etc. are strings.
inline LayerSettings layer_settings_of(const py::dict& values) {
    const auto number = [&](const char* key) { return required<int>(values, key); };
    const auto name = [&](const char* key) { return required<std::string>(values, key); };
    const auto [activation, gated] = activation_of(name("activation"));
    return {number("d_model"),
            number("heads"),
            number("d_ff"),
            number("max_positions"),
            norm_of(name("norm")),
            norm_placement_of(name("norm_placement")),
            required<float>(values, "norm_epsilon"),
            positions_of(name("positions")),
            required<double>(values, "position_base"),
            required<float>(values, "attention_scale"),
            activation,
            gated};
}

// Convert a weight returned by Python: an array of float32, or None.
inline Weight weight_of(const std::string& name, const py::object& value) {
    if (value.is_none()) return {};
    if (!py::isinstance<py::array_t<float>>(value)) throw std::invalid_argument(name + " is not an array of float32");
    const auto array = py::array_t<float, py::array::c_style>::ensure(value);
    if (!array) throw py::error_already_set();
    return {{array.data(), array.data() + array.size()}, {array.shape(), array.shape() + array.ndim()}, true};
}

// Return what `load` returns, which reads weights by their names; `weights` returns the array of a name, or None.
template <class Load>
auto load_from(const py::function& weights, const Load& load) {
    CancelFlag cancelled{false};
    const Running running(cancelled);  // reading a file releases Python's lock
    return load([&](const std::string& name) {
        if (cancelled) Running::throw_closed();
        return weight_of(name, weights(name));
    });
}

}  // namespace dragoman
