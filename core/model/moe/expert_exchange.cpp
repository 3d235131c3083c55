#include "core/model/moe/expert_exchange.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "core/numerics/threads.h"

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

std::size_t ExpertExchange::rows_here() const {
  return std::accumulate(sent_rows_.begin(), sent_rows_.end(), std::size_t{0});
}

std::size_t ExpertExchange::rows_there() const {
  return static_cast<std::size_t>(at_experts_.expert_offset.back());
}

template <class T>
void ExpertExchange::dispatch_merged(const OperandFormat& format, const T* tokens_of, std::size_t tokens, int dim,
                                     T* at_experts) const {
  const RowCodec<T> codec(format, dim);
  if (codec.copies()) return merged_.send(tokens_of, codec.row_bytes(), at_experts);
  thread_local std::vector<std::uint8_t> leaving, arrived;
  leaving.resize(tokens * codec.row_bytes());
  arrived.resize(rows_there() * codec.row_bytes());
  codec.encode(tokens_of, tokens, leaving.data());
  merged_.send(leaving.data(), codec.row_bytes(), arrived.data());
  codec.decode(arrived.data(), rows_there(), at_experts);
}

template <class T>
void ExpertExchange::to_experts(const OperandFormat& format, const T* rows, int dim, T* at_experts) const {
  const RowCodec<T> codec(format, dim);
  const std::size_t bytes = codec.row_bytes();
  thread_local std::vector<std::uint8_t> leaving, arrived;
  arrived.resize(rows_there() * bytes);
  const void* send = rows;
  if (!codec.copies()) {
    leaving.resize(rows_here() * bytes);
    codec.encode(rows, rows_here(), leaving.data());
    send = leaving.data();
  }
  exchange(send, sent_rows_, arrived.data(), received_rows_, bytes);
  const std::uint8_t* from = arrived.data();
  parallel_for(static_cast<int>(runs_.size()), [&](int i) {
    const Run& run = runs_[static_cast<std::size_t>(i)];
    codec.decode(from + run.arrived * bytes, run.rows, at_experts + run.at_expert * static_cast<std::size_t>(dim));
  });
}

template <class T>
void ExpertExchange::from_experts(const OperandFormat& format, const T* at_experts, int dim, T* rows) const {
  const RowCodec<T> codec(format, dim);
  const std::size_t bytes = codec.row_bytes();
  thread_local std::vector<std::uint8_t> leaving, arrived;
  leaving.resize(rows_there() * bytes);
  std::uint8_t* to = leaving.data();
  parallel_for(static_cast<int>(runs_.size()), [&](int i) {
    const Run& run = runs_[static_cast<std::size_t>(i)];
    codec.encode(at_experts + run.at_expert * static_cast<std::size_t>(dim), run.rows, to + run.arrived * bytes);
  });
  if (codec.copies()) return exchange(to, received_rows_, rows, sent_rows_, bytes);
  arrived.resize(rows_here() * bytes);
  exchange(to, received_rows_, arrived.data(), sent_rows_, bytes);
  codec.decode(arrived.data(), rows_here(), rows);
}

#define INSTANTIATE(T)                                                                                          \
  template void ExpertExchange::dispatch_merged<T>(const OperandFormat&, const T*, std::size_t, int, T*) const; \
  template void ExpertExchange::to_experts<T>(const OperandFormat&, const T*, int, T*) const;                   \
  template void ExpertExchange::from_experts<T>(const OperandFormat&, const T*, int, T*) const;
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace moescope
