// Reads tensors of a checkpoint's files by name and checks their shapes against config.json.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "core/checkpoints/quantization_config.h"
#include "core/checkpoints/stored_matrix.h"
#include "core/files/tensors/tensor_file.h"

namespace moescope {

// All functions that read throw std::runtime_error "FILE: tensor 'NAME' ...".
class WeightReader {
 public:
  // `file` must outlive the matrices that are read. Weights that contradict `quantization` are refused.
  WeightReader(const TensorFile& file, const StatedQuantization& quantization, SharedFailure failure,
               Arithmetic arithmetic);

  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  // A vector in FP32.
  std::vector<float> vector(const std::string& name, Index size);
  // A matrix [outputs, inputs].
  StoredMatrix matrix(const std::string& name, Index outputs, Index inputs);
  // Matrices of a stack [count, outputs, inputs], or [count, inputs, outputs] if `transposed`.
  std::vector<StoredLinear> stack(const std::string& name, Index count, Index outputs, Index inputs, bool transposed);
  std::vector<std::vector<float>> stacked_vectors(const std::string& name, Index count, Index size);
  // NAME.weight, and NAME.bias if `bias`. Throws if `bias` is false and the file holds NAME.bias. `key`: the key of
  // config.json that sets `bias`, for the message.
  StoredLinear linear(const std::string& name, Index outputs, Index inputs, bool bias, const char* key);

  // Sets the rounding of operands in the linear layers and stacks that are read afterwards.
  void set_rounding(const OperandRounding* rounding) { rounding_ = rounding; }

  // Throws if the file holds a tensor that was not read and may change the results.
  void require_all_read() const;

  // Whether a tensor of codes without scales was read as plain values.
  bool read_bare_codes() const { return bare_codes_; }
  bool read_codes() const { return codes_; }  // whether a tensor of codes and scales was read
  std::size_t parameters() const { return parameters_; }
  std::size_t bytes() const { return bytes_; }  // of the parameters, as stored

 private:
  const TensorView& find(const std::string& name, const std::vector<Index>& shape);
  void check_format(const TensorView& tensor);
  bool has_no_effect(const std::string& name) const;
  [[noreturn]] void fail(const TensorView& tensor, const std::string& what) const;

  const TensorFile& file_;
  const StatedQuantization& quantization_;
  SharedFailure failure_;
  Arithmetic arithmetic_;  // of linear layers and stacks
  const OperandRounding* rounding_ = nullptr;
  std::unordered_set<const TensorView*> read_;
  bool bare_codes_ = false, codes_ = false;
  std::size_t parameters_ = 0, bytes_ = 0;
};

}  // namespace moescope
