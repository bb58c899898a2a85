// The weights of a model by the names of dragoman.models.transformer, checked against its settings and packed.
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

// An array of any rank, as it was read.
struct Weight {
    std::vector<float> values;
    std::vector<int64_t> shape;
    bool found = false;  // whether the model has a weight of that name
};

// No trained weight comes near it. What is larger overflows in one precision or for one sentence, and not in others.
constexpr float LARGEST_WEIGHT = 0x1p63f;

// Returns the weight of a name. Weights are asked for one at a time, so that they are not all in memory at once.
using ReadWeight = std::function<Weight(const std::string&)>;

struct Loader {
    const ReadWeight& read;
    const ModelSettings& settings;
    const Precision precision;

    // A vector that must be there, with this size.
    std::vector<float> vector(const std::string& name, int size) const {
        return checked(name, read(name), {size}).values;
    }

    // A matrix that must be there, with this shape.
    std::vector<float> rows(const std::string& name, int rows, int columns) const {
        return checked(name, read(name), {rows, columns}).values;
    }

    PackedMatrix matrix(const std::string& name, int out, int in) const {
        return PackedMatrix(rows(name, out, in).data(), out, in, precision);
    }

    // Several modules that project the same rows, each [out, in], as one product; all have a bias, or none has.
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
        if (!weight.found) throw std::invalid_argument("it lacks " + name);
        if (weight.shape != shape)
            throw std::invalid_argument(name + " has shape " + text(weight.shape) + ", but config.json asks for " +
                                        text(shape));
        for (const float value : weight.values)
            if (!(std::fabs(value) < LARGEST_WEIGHT))
                throw std::domain_error(name + " has values that are not finite, or whose square is not");
        return weight;
    }

    // A shape as Python writes a list.
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
