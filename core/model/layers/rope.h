// Rotary position embedding on adjacent pairs: (a, b) -> (a cos - b sin, a sin + b cos), angle = position *
// theta^(-2j/d) for pair j of d dimensions (Su et al. 2021; the interleaved form, as in DeepSeek-V3).
#pragma once

#include <cstddef>
#include <vector>

namespace moescope {

template <class T>
class Rope {
 public:
  // Tables are computed in double and rounded once. `dim` must be even.
  Rope(int positions, int dim, double theta);

  // Rotates `x`, dim values of the token at `position`, in place; `inverse` rotates back, which is the gradient.
  void apply(T* x, int position, bool inverse) const {
    const T* cos = cos_.data() + static_cast<std::size_t>(position) * pairs_;
    const T* sin = sin_.data() + static_cast<std::size_t>(position) * pairs_;
    for (std::size_t j = 0; j < pairs_; ++j) {
      const T a = x[2 * j], b = x[2 * j + 1], s = inverse ? -sin[j] : sin[j];
      x[2 * j] = a * cos[j] - b * s;
      x[2 * j + 1] = a * s + b * cos[j];
    }
  }

 private:
  std::size_t pairs_;
  std::vector<T> cos_, sin_;  // [positions, dim / 2]
};

extern template class Rope<float>;
extern template class Rope<double>;

}  // namespace moescope
