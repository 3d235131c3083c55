// Reads tensors of a checkpoint's files by name and checks their shapes against config.json.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/checkpoints/quantization_config.h"
#include "core/checkpoints/stored_matrix.h"
#include "core/files/tensors/tensor_file.h"
#include "core/files/text/text_escape.h"
#include "core/files/unreadable.h"

namespace moescope {

// All functions that read throw std::runtime_error "FILE: tensor 'NAME' ...".
class WeightReader {
 public:
  // `file` must outlive the matrices that are read. Weights that contradict `quantization` are refused.
  WeightReader(const TensorFile& file, const StatedQuantization& quantization, SharedFailure failure,
               Arithmetic arithmetic)
      : file_(file), quantization_(quantization), failure_(std::move(failure)), arithmetic_(arithmetic) {}

  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  // A vector in FP32.
  std::vector<float> vector(const std::string& name, Index size) { return find(name, {size}).floats(); }
  // A matrix [outputs, inputs].
  StoredMatrix matrix(const std::string& name, Index outputs, Index inputs) {
    return {find(name, {outputs, inputs}), 0, false, failure_};
  }
  // Matrices of a stack [count, outputs, inputs], or [count, inputs, outputs] if `transposed`.
  std::vector<StoredLinear> stack(const std::string& name, Index count, Index outputs, Index inputs, bool transposed) {
    const TensorView& tensor = find(
        name, transposed ? std::vector<Index>{count, inputs, outputs} : std::vector<Index>{count, outputs, inputs});
    std::vector<StoredLinear> matrices;
    for (Index i = 0; i < count; ++i)
      matrices.emplace_back(StoredMatrix(tensor, i, transposed, failure_), arithmetic_, rounding_);
    return matrices;
  }

  std::vector<std::vector<float>> stacked_vectors(const std::string& name, Index count, Index size) {
    const TensorView& tensor = find(name, {count, size});
    std::vector<std::vector<float>> vectors;
    for (Index i = 0; i < count; ++i) vectors.push_back(tensor.floats(i * size, size));
    return vectors;
  }
  // NAME.weight, and NAME.bias if `bias`. Throws if `bias` is false and the file holds NAME.bias. `key`: the key of
  // config.json that sets `bias`, for the message.
  StoredLinear linear(const std::string& name, Index outputs, Index inputs, bool bias, const char* key) {
    StoredLinear linear(matrix(name + ".weight", outputs, inputs), arithmetic_, rounding_);
    if (bias) linear.bias = vector(name + ".bias", outputs);
    if (const TensorView* stored = file_.find(name + ".bias"); stored && !bias)
      fail(*stored, std::string("exists, but by '") + key + "' of config.json there is none");
    return linear;
  }

  // Sets the rounding of operands in the linear layers and stacks that are read afterwards.
  void set_rounding(const OperandRounding* rounding) { rounding_ = rounding; }

  // Throws if the file holds a tensor that was not read and may change the results.
  void require_all_read() const {
    const TensorView* first = nullptr;
    std::size_t unread_count = 0;
    for (const TensorView& tensor : file_.tensors()) {
      if (read_.contains(&tensor) || tensor.holds == TensorView::Holds::scales || has_no_effect(tensor.name)) continue;
      if (first)
        ++unread_count;
      else
        first = &tensor;
    }
    if (!first) return;
    std::string verb = "is";
    if (unread_count > 0)
      verb = fmt::format("and {}{}", unread_count, unread_count == 1 ? " other tensor are" : " other tensors are");
    fail(*first, verb + " used by no layer that config.json describes: is a key of config.json wrong or missing?");
  }

  // Whether a tensor of codes without scales was read as plain values.
  bool read_bare_codes() const { return bare_codes_; }
  bool read_codes() const { return codes_; }  // whether a tensor of codes and scales was read
  std::size_t parameters() const { return parameters_; }
  std::size_t bytes() const { return bytes_; }  // of the parameters, as stored

 private:
  const TensorView& find(const std::string& name, const std::vector<Index>& shape) {
    const TensorView& tensor = file_.at(name);
    const std::vector<std::size_t> required_shape(shape.begin(), shape.end());
    if (tensor.shape != required_shape)
      fail(tensor, "is " + shape_text(tensor.shape) + "; config.json requires " + shape_text(required_shape));
    check_format(tensor);
    read_.insert(&tensor);
    parameters_ += tensor.elements();
    bytes_ += tensor.bytes.size();
    return tensor;
  }

  void check_format(const TensorView& tensor) {
    if (tensor.holds != TensorView::Holds::values) fail(tensor, tensor.note);
    if (!tensor.floating()) fail(tensor, "holds " + tensor.type_text() + "; allowed: floating-point numbers");
    if (tensor.scales) {
      codes_ = true;
      if (const std::string problem = quantization_.problem(tensor); !problem.empty()) fail(tensor, problem);
    } else if (tensor.dtype == DType::f8_e4m3 || tensor.dtype == DType::f8_e5m2 || tensor.dtype == DType::f4) {
      bare_codes_ = true;
      if (quantization_.exists)
        fail(tensor, "holds " + tensor.type_text() +
                         " codes, but the file has no scales for them; config.json says that "
                         "weights are quantized");
    }
  }

  // True for tensors that do not affect a forward pass in FP32: frequencies of RoPE, which follow from config.json,
  // scales of activations and of the cache of keys and values, and layers for the prediction of several tokens.
  bool has_no_effect(const std::string& name) const {
    constexpr std::string_view kEnds[] = {".rotary_emb.inv_freq",
                                          ".input_scale",
                                          ".output_scale",
                                          ".input_global_scale",
                                          ".q_scale",
                                          ".k_scale",
                                          ".v_scale",
                                          ".prob_scale"};
    if (std::ranges::any_of(kEnds, [&](std::string_view end) { return name.ends_with(end); })) return true;
    if (name.starts_with("mtp.")) return true;
    constexpr std::string_view kLayers = "model.layers.";
    const std::size_t end = name.find('.', kLayers.size());
    if (!name.starts_with(kLayers) || end == std::string::npos) return false;
    const std::string layer = name.substr(0, end);
    return has(layer + ".eh_proj.weight") && !read_.contains(file_.find(layer + ".input_layernorm.weight"));
  }

  [[noreturn]] void fail(const TensorView& tensor, const std::string& what) const {
    refuse(file_.file_of(tensor), "tensor '" + printable(tensor.name) + "' " + what);
  }

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
