// Matrices out of reference data, for the checkers of number formats.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/files/tensors/safetensors.h"
#include "core/numerics/block_quantize.h"

namespace moescope {

inline std::vector<std::uint8_t> bytes_of(const TensorView& tensor) {
  if (tensor.dtype != DType::u8) throw std::runtime_error("tensor '" + tensor.name + "': expected U8");
  std::vector<std::uint8_t> bytes(tensor.elements());
  if (!bytes.empty()) std::memcpy(bytes.data(), tensor.bytes.data(), bytes.size());
  return bytes;
}

struct GoldenMatrix {
  std::size_t rows = 0, cols = 0;
  std::vector<float> data;

  GoldenMatrix(std::size_t r, std::size_t c) : rows(r), cols(c), data(r * c) {}
  explicit GoldenMatrix(const TensorView& tensor) : data(tensor.floats()) {
    if (tensor.shape.size() != 2) throw std::runtime_error("tensor '" + tensor.name + "': expected two axes");
    rows = tensor.shape[0];
    cols = tensor.shape[1];
  }
  Matrix<const float> view() const { return {data.data(), rows, cols}; }
  Matrix<float> view() { return {data.data(), rows, cols}; }
  float at(std::size_t r, std::size_t c) const { return data[r * cols + c]; }
};

inline GoldenMatrix transposed(const GoldenMatrix& m) {
  GoldenMatrix t(m.cols, m.rows);
  for (std::size_t r = 0; r < m.rows; ++r)
    for (std::size_t c = 0; c < m.cols; ++c) t.data[c * m.rows + r] = m.at(r, c);
  return t;
}

inline void require_size(const SafetensorsFile& file, const std::string& tensor, std::size_t found,
                         std::size_t expected) {
  if (found != expected)
    throw std::runtime_error(file.path() + ": tensor '" + tensor + "' has " + std::to_string(found) +
                             " elements, expected " + std::to_string(expected));
}

// Returns a [M,K] times b [N,K] transposed; each sum is in double and rounded once.
inline GoldenMatrix product(const GoldenMatrix& a, const GoldenMatrix& b) {
  GoldenMatrix c(a.rows, b.rows);
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t j = 0; j < b.rows; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < a.cols; ++k) sum += static_cast<double>(a.at(i, k)) * b.at(j, k);
      c.data[i * b.rows + j] = static_cast<float>(sum);
    }
  }
  return c;
}

}  // namespace moescope
