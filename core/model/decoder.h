// The forward pass of a decoder, for the model in training and for the models of checkpoints:
//
//   x = embedding;  per layer: x += attention(rms(x)), x += ffn(rms(x));  logits = output rms(x)
//
// The layers are in layers/ and moe/; their weights are LinearLayers, in memory or in a file.
// Legend: T tokens, D dim.
#pragma once

#include "core/model/layers/rms_norm.h"
#include "core/numerics/bf16_rounding.h"

namespace moescope {

template <class T>
class Decoder {
 public:
  virtual ~Decoder() = default;

 protected:
  enum class Part { attention, feed_forward, head };
  // Rows of one part: y = x + part(h) with h = rms(x) gain. x and y may be the same rows; the head has no y.
  struct Rows {
    Matrix<const T> x;        // [T, D]
    std::span<const T> gain;  // [D]
    Matrix<T> h;              // [T, D]
    std::span<T> h_inv;       // [T] 1 / rms(x)
    Matrix<T> y;              // [T, D]
    bool rounds_h = false;    // h is rounded to BF16
  };

  Decoder(int layers, double norm_eps) : layers_(layers), norm_eps_(norm_eps) {}

  void forward_pass() {
    embed();
    for (int layer = 0; layer < layers_; ++layer) layer_pass(layer);
    head_pass();
  }
  void layer_pass(int layer) {
    const Rows first = normed(layer, Part::attention);
    attention(layer, first);
    finish(first.y);
    const Rows second = normed(layer, Part::feed_forward);
    feed_forward(layer, second);
    finish(second.y);
  }
  void head_pass() { head(normed(layers_, Part::head)); }

  virtual void embed() = 0;
  // Called at the beginning of every part. The head's layer is the number of layers.
  virtual Rows begin(int layer, Part part) = 0;
  virtual void attention(int layer, const Rows& rows) = 0;
  virtual void feed_forward(int layer, const Rows& rows) = 0;
  virtual void head(const Rows& rows) = 0;
  // Called when the rows y of a part are complete.
  virtual void finish(const Matrix<T>& y) = 0;

 private:
  Rows normed(int layer, Part part) {
    const Rows rows = begin(layer, part);
    rms_norm_forward<T>(rows.x, rows.gain, norm_eps_, rows.h, rows.h_inv);
    if (rows.rounds_h) round_all_to_bf16(rows.h);
    return rows;
  }

  int layers_;
  double norm_eps_;
};

}  // namespace moescope
