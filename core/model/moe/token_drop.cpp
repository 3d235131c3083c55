#include "core/model/moe/token_drop.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace moescope {

int expert_capacity(std::size_t tokens, int top_k, int n_experts, double factor) {
  return static_cast<int>(std::ceil(static_cast<double>(tokens * top_k) / n_experts * factor));
}

template <class T>
void drop_beyond_capacity(TokenDrop policy, ConstMatrix<std::int32_t> ids_TK, int n_experts, int capacity, T* mix,
                          std::uint8_t* is_kept, const std::uint8_t* padding) {
  std::vector<std::vector<std::size_t>> copies_of(n_experts);
  for (Index i = 0; i < ids_TK.size(); ++i)
    if (!padding || !padding[i / ids_TK.cols]) copies_of[ids_TK.data[i]].push_back(i);
  std::fill_n(is_kept, ids_TK.size(), std::uint8_t{1});
  for (std::vector<std::size_t>& of_expert : copies_of) {
    if (std::ssize(of_expert) <= capacity) continue;
    if (policy == TokenDrop::probs)
      std::ranges::stable_sort(of_expert, [mix](std::size_t a, std::size_t b) { return mix[a] > mix[b]; });
    for (std::size_t i = capacity; i < of_expert.size(); ++i) {
      mix[of_expert[i]] = T{0};
      is_kept[of_expert[i]] = 0;
    }
  }
}

template void drop_beyond_capacity<float>(TokenDrop, ConstMatrix<std::int32_t>, int, int, float*, std::uint8_t*,
                                          const std::uint8_t*);
template void drop_beyond_capacity<double>(TokenDrop, ConstMatrix<std::int32_t>, int, int, double*, std::uint8_t*,
                                           const std::uint8_t*);

}  // namespace moescope
