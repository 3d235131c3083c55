#include "core/model/layers/rope.h"

#include <cmath>

namespace moescope {

template <class T>
Rope<T>::Rope(int positions, int dim, double theta) : pairs_(static_cast<std::size_t>(dim / 2)) {
  for (int position = 0; position < positions; ++position)
    for (int j = 0; j < dim / 2; ++j) {
      const double angle = position * std::pow(theta, -2.0 * j / dim);
      cos_.push_back(static_cast<T>(std::cos(angle)));
      sin_.push_back(static_cast<T>(std::sin(angle)));
    }
}

template class Rope<float>;
template class Rope<double>;

}  // namespace moescope
