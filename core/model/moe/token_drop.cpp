#include "core/model/moe/token_drop.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/numerics/size.h"

namespace moescope {

int expert_capacity(std::size_t tokens, int top_k, int n_experts, double factor) {
  return static_cast<int>(std::ceil(static_cast<double>(tokens * size(top_k)) / n_experts * factor));
}

template <class T>
std::size_t drop_beyond_capacity(TokenDrop policy, const std::int32_t* ids, std::size_t tokens, int top_k,
                                 int n_experts, int capacity, T* mix, std::uint8_t* kept) {
  const std::size_t copies = tokens * size(top_k);
  std::vector<std::vector<std::size_t>> copies_of(size(n_experts));
  for (std::size_t i = 0; i < copies; ++i) copies_of[size(ids[i])].push_back(i);
  std::fill_n(kept, copies, std::uint8_t{1});
  std::size_t dropped = 0;
  for (std::vector<std::size_t>& of_expert : copies_of) {
    if (of_expert.size() <= size(capacity)) continue;
    if (policy == TokenDrop::probs)
      std::ranges::stable_sort(of_expert, [mix](std::size_t a, std::size_t b) { return mix[a] > mix[b]; });
    for (std::size_t i = size(capacity); i < of_expert.size(); ++i, ++dropped) {
      mix[of_expert[i]] = T{0};
      kept[of_expert[i]] = 0;
    }
  }
  return dropped;
}

template std::size_t drop_beyond_capacity<float>(TokenDrop, const std::int32_t*, std::size_t, int, int, int, float*,
                                                 std::uint8_t*);
template std::size_t drop_beyond_capacity<double>(TokenDrop, const std::int32_t*, std::size_t, int, int, int, double*,
                                                  std::uint8_t*);

}  // namespace moescope
