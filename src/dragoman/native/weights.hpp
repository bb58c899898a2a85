// The weights of a model by the names of dragoman.models.transformer, checked against its settings and packed.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "linear.hpp"
#include "settings.hpp"

namespace dragoman {

// A matrix, or a vector as one row; without rows where the model has no weight of that name.
struct Weight {
    std::vector<float> values;
    int rows = 0, columns = 0;
};

// Returns the weight of a name. Weights are asked for one at a time, so that they are not all in memory at once.
using ReadWeight = std::function<Weight(const std::string&)>;

struct Loader {
    const ReadWeight& read;
    const ModelSettings& settings;
    const Precision precision;

    // A weight that must be there, with this shape.
    std::vector<float> values(const std::string& name, int rows, int columns) const {
        return checked(name, read(name), rows, columns).values;
    }

    PackedMatrix matrix(const std::string& name, int out, int in) const {
        return PackedMatrix(values(name, out, in).data(), out, in, precision);
    }

    // Several modules that project the same rows, each [out, in] with or without a bias, as one product.
    Linear linear(const std::vector<std::string>& modules, int out, int in) const {
        std::vector<float> weights, bias;
        for (const auto& module : modules) {
            append(weights, checked(module + ".weight", read(module + ".weight"), out, in));
            Weight offset = read(module + ".bias");
            if (offset.rows) append(bias, checked(module + ".bias", std::move(offset), 1, out));
        }
        const int all = int(modules.size()) * out;
        if (!bias.empty() && bias.size() != size_t(all)) throw std::invalid_argument("a bias is missing");
        return Linear(PackedMatrix(weights.data(), all, in, precision), std::move(bias));
    }

  private:
    static Weight checked(const std::string& name, Weight weight, int rows, int columns) {
        const auto shape = [](int r, int c) { return "[" + std::to_string(r) + ", " + std::to_string(c) + "]"; };
        if (weight.rows == 0) throw std::invalid_argument("it lacks " + name);
        if (weight.rows != rows || weight.columns != columns)
            throw std::invalid_argument(name + " has shape " + shape(weight.rows, weight.columns) +
                                        ", but config.json asks for " + shape(rows, columns));
        return weight;
    }

    static void append(std::vector<float>& to, Weight weight) {
        if (to.empty())
            to = std::move(weight.values);
        else
            to.insert(to.end(), weight.values.begin(), weight.values.end());
    }
};

}  // namespace dragoman
