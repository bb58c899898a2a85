// Loading of weights by their names in dragoman.models: checked against the settings, and packed.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "linear.hpp"
#include "settings.hpp"

namespace dragoman {

// A weight tensor as read from the file.
struct Weight {
    std::vector<float> values;
    std::vector<int64_t> shape;
    bool found = false;  // false if the model has no weight of this name
};

// Limit far above all trained weights. Larger weights would overflow in some precisions or for some sentences only.
constexpr float LARGEST_WEIGHT = 0x1p63f;

// Returns the weight of a name. Weights are read one at a time, so that they are not all in memory at once.
using ReadWeight = std::function<Weight(const std::string&)>;

struct Loader {
    const ReadWeight& read;
    const LayerSettings& settings;
    const Precision precision;

    // Read a required vector of this size.
    std::vector<float> vector(const std::string& name, int size) const {
        return checked(name, read(name), {size}).values;
    }

    // Read a required matrix of this shape.
    std::vector<float> rows(const std::string& name, int rows, int columns) const {
        return checked(name, read(name), {rows, columns}).values;
    }

    // Read and pack a required matrix.
    PackedMatrix matrix(const std::string& name, int out, int in) const {
        return PackedMatrix(rows(name, out, in).data(), out, in, precision);
    }

    // Combine modules that project the same rows, each [out, in], to one layer; all must have a bias, or none.
    Linear linear(const std::vector<std::string>& modules, int out, int in) const {
        std::vector<float> weights, bias;
        for (const auto& module : modules) {
            append(weights, rows(module + ".weight", out, in));
            const std::string name = module + ".bias";
            Weight offset = read(name);
            if (offset.found) append(bias, checked(name, std::move(offset), {out}).values);
        }
        const int all = int(modules.size()) * out;
        if (!bias.empty() && bias.size() != size_t(all)) throw std::invalid_argument("a bias is missing");
        return Linear(PackedMatrix(weights.data(), all, in, precision), std::move(bias));
    }

  private:
    static Weight checked(const std::string& name, Weight weight, const std::vector<int64_t>& shape) {
        if (!weight.found) throw std::invalid_argument("the weight " + name + " is missing");
        if (weight.shape != shape)
            throw std::invalid_argument(name + " has shape " + text(weight.shape) + ", but config.json requires " +
                                        text(shape));
        for (const float value : weight.values)
            if (!(std::fabs(value) < LARGEST_WEIGHT))
                throw std::domain_error(name + " has values that are not finite, or whose square is not");
        return weight;
    }

    // Format a shape like a Python list.
    static std::string text(const std::vector<int64_t>& shape) {
        std::string sizes;
        for (const int64_t size : shape) sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
        return "[" + sizes + "]";
    }

    static void append(std::vector<float>& to, std::vector<float> more) {
        if (to.empty())
            to = std::move(more);
        else
            to.insert(to.end(), more.begin(), more.end());
    }
};

}  // namespace dragoman
