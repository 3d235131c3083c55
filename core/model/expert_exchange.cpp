#include "core/model/expert_exchange.h"

#include <algorithm>
#include <cassert>

#include "core/numerics/parallel.h"

namespace moescope {

void ExpertExchange::plan(const DispatchPlan& here, const std::vector<std::int32_t>& topk_TK, Ranks& ranks) {
  ranks_ = &ranks;
  if (ranks.over_nodes()) merged_.plan(ranks, topk_TK, here.top_k, here.experts());
  const int size = ranks.size(), experts = here.experts(), own = experts / size, first = ranks.rank() * own;
  assert(experts % size == 0);
  std::vector<std::uint32_t> mine(static_cast<std::size_t>(experts));
  for (int e = 0; e < experts; ++e) mine[static_cast<std::size_t>(e)] = static_cast<std::uint32_t>(here.tokens_of(e));
  std::vector<std::uint32_t> of_all(mine.size() * static_cast<std::size_t>(size));  // [source][expert]
  ranks.gather_all(mine.data(), mine.size() * sizeof(std::uint32_t), of_all.data());
  const auto count = [&](int source, int expert) {
    return of_all[static_cast<std::size_t>(source) * mine.size() + static_cast<std::size_t>(expert)];
  };

  sent_rows_.assign(static_cast<std::size_t>(size), 0);
  received_rows_.assign(static_cast<std::size_t>(size), 0);
  at_experts_.expert_offset.assign(static_cast<std::size_t>(experts) + 1, 0);
  for (int e = 0; e < experts; ++e) {
    sent_rows_[static_cast<std::size_t>(e / own)] += mine[static_cast<std::size_t>(e)];
    std::int32_t rows = 0;
    for (int source = 0; source < size && e / own == ranks.rank(); ++source)
      rows += static_cast<std::int32_t>(count(source, e));
    at_experts_.expert_offset[static_cast<std::size_t>(e) + 1] =
        at_experts_.expert_offset[static_cast<std::size_t>(e)] + rows;
  }
  runs_.clear();
  std::vector<std::size_t> next(static_cast<std::size_t>(own));
  for (int e = 0; e < own; ++e)
    next[static_cast<std::size_t>(e)] =
        static_cast<std::size_t>(at_experts_.expert_offset[static_cast<std::size_t>(first + e)]);
  std::size_t arrived = 0;
  for (int source = 0; source < size; ++source)
    for (int e = 0; e < own; ++e) {
      const std::size_t rows = count(source, first + e);
      runs_.push_back({arrived, next[static_cast<std::size_t>(e)], rows});
      arrived += rows;
      next[static_cast<std::size_t>(e)] += rows;
      received_rows_[static_cast<std::size_t>(source)] += static_cast<std::uint32_t>(rows);
    }
}

Ranks::Parts ExpertExchange::parts(const std::vector<std::uint32_t>& rows, std::size_t row_bytes) const {
  Ranks::Parts parts;
  std::size_t offset = 0;
  for (const std::uint32_t n : rows) {
    parts.bytes.push_back(n * row_bytes);
    parts.offset.push_back(offset);
    offset += n * row_bytes;
  }
  return parts;
}

void ExpertExchange::exchange(const void* send, const std::vector<std::uint32_t>& sent_rows, void* receive,
                              const std::vector<std::uint32_t>& received_rows, std::size_t row_bytes) const {
  const Ranks::Parts sent = parts(sent_rows, row_bytes), received = parts(received_rows, row_bytes);
  if (ranks_->over_nodes())
    all_to_all_over_nodes(*ranks_, send, sent, receive, received);
  else
    ranks_->all_to_all(send, sent, receive, received);
}

template <class T>
void ExpertExchange::to_experts(const T* rows, int dim, T* at_experts) const {
  const auto d = static_cast<std::size_t>(dim);
  thread_local std::vector<T> arrived;
  arrived.resize(static_cast<std::size_t>(at_experts_.expert_offset.back()) * d);
  exchange(rows, sent_rows_, arrived.data(), received_rows_, d * sizeof(T));
  const T* from = arrived.data();
  parallel_for(static_cast<int>(runs_.size()), [&](int i) {
    const Run& run = runs_[static_cast<std::size_t>(i)];
    std::copy_n(from + run.arrived * d, run.rows * d, at_experts + run.at_expert * d);
  });
}

template <class T>
void ExpertExchange::from_experts(const T* at_experts, int dim, T* rows) const {
  const auto d = static_cast<std::size_t>(dim);
  thread_local std::vector<T> leaving;
  leaving.resize(static_cast<std::size_t>(at_experts_.expert_offset.back()) * d);
  T* to = leaving.data();
  parallel_for(static_cast<int>(runs_.size()), [&](int i) {
    const Run& run = runs_[static_cast<std::size_t>(i)];
    std::copy_n(at_experts + run.at_expert * d, run.rows * d, to + run.arrived * d);
  });
  exchange(to, received_rows_, rows, sent_rows_, d * sizeof(T));
}

template void ExpertExchange::to_experts<float>(const float*, int, float*) const;
template void ExpertExchange::to_experts<double>(const double*, int, double*) const;
template void ExpertExchange::from_experts<float>(const float*, int, float*) const;
template void ExpertExchange::from_experts<double>(const double*, int, double*) const;

}  // namespace moescope
