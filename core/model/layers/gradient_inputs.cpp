#include "core/model/layers/gradient_inputs.h"

#include <algorithm>
#include <array>

#include "core/model/layers/precision.h"
#include "core/numerics/threads.h"
#include "core/numerics/size.h"

namespace moescope {

template <class T>
GradientInputs<T>::GradientInputs(const OperandSource<T>& wgrad_dy, const OperandSource<T>& x,
                                  const OperandSource<T>& dgrad_dy, const OperandSource<T>& w, bool in_bands)
    : wgrad_dy_(wgrad_dy),
      x_(x),
      dgrad_dy_(dgrad_dy),
      w_(w),
      in_bands_(in_bands),
      once_(wgrad_dy.format && dgrad_dy.format && quantize_alike(*wgrad_dy.format, *dgrad_dy.format)),
      scratch_(thread_scratch<T>(std::max(scratch_for(wgrad_dy, x), scratch_for(dgrad_dy, w)))) {}

template <class T>
GemmInputs<T> GradientInputs<T>::wgrad() {
  if (!once_) return quantized(wgrad_dy_, x_, in_bands_, scratch_);
  std::array<QuantSums, 2> counted;
  OperandSource<T> dy = wgrad_dy_;
  for (std::size_t i = 0; i < counted.size(); ++i)
    if (dy.part[i].sums) dy.part[i].sums = &counted[i];
  const GemmInputs<T> inputs = quantized(dy, x_, in_bands_, scratch_);
  for (std::size_t i = 0; i < size(dy.parts); ++i)
    for (const OperandSource<T>* of : {&wgrad_dy_, &dgrad_dy_})
      if (of->part[i].sums) of->part[i].sums->add(counted[i]);
  taken_ = inputs.a;
  return inputs;
}

template <class T>
GemmInputs<T> GradientInputs<T>::dgrad() {
  return once_ ? quantized_after(taken_, dgrad_dy_, w_, in_bands_, scratch_)
               : quantized(dgrad_dy_, w_, in_bands_, scratch_);
}

template class GradientInputs<float>;
template class GradientInputs<double>;

}  // namespace moescope
