#include "core/model/moe/expert_exchange.h"

#include <bit>
#include <cassert>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "core/numerics/block_quantize.h"
#include "core/numerics/kernels/float_rounding.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

constexpr Index kCodedRows = 64;  // rows per task

Index bytes_of_row(const OperandFormat& format, Index dim) {
  if (format.scheme == QuantScheme::bf16) return 2 * dim;
  return dim + (dim + format.block - 1) / format.block;
}

void encode_bf16(const float* values, Index count, std::uint8_t* bytes) {
  for (Index i = 0; i < count; ++i) {
    const auto high = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(bf16_rounded(values[i])) >> 16);
    std::memcpy(bytes + 2 * i, &high, 2);
  }
}

void decode_bf16(const std::uint8_t* bytes, Index count, float* values) {
  for (Index i = 0; i < count; ++i) {
    std::uint16_t high;
    std::memcpy(&high, bytes + 2 * i, 2);
    values[i] = std::bit_cast<float>(std::uint32_t{high} << 16);
  }
}

// Returns rows of `row_bytes` in `memory`, which is resized.
Matrix<std::uint8_t> sized(std::vector<std::uint8_t>& memory, Index rows, Index row_bytes) {
  memory.resize(rows * row_bytes);
  return {memory.data(), rows, row_bytes};
}

// Returns the bytes of rows without gaps, as they are in memory.
template <class T>
auto bytes_of(const Matrix<T>& rows) {
  using Byte = std::conditional_t<std::is_const_v<T>, const std::uint8_t, std::uint8_t>;
  return Matrix<Byte>(reinterpret_cast<Byte*>(rows.data), rows.rows, rows.cols * Index{sizeof(T)});
}

}  // namespace

void ExpertExchange::plan(const DispatchPlan& own_plan, const std::vector<std::int32_t>& topk_TK, Ranks& ranks) {
  ranks_ = &ranks;
  if (ranks.over_nodes()) merged_.plan(ranks, topk_TK, own_plan.top_k, own_plan.experts());
  const int size = ranks.size(), experts = own_plan.experts(), experts_per_rank = experts / size,
            first = ranks.rank() * experts_per_rank;
  assert(experts % size == 0);
  std::vector<std::uint32_t> own_counts(experts);
  for (int e = 0; e < experts; ++e) own_counts[e] = own_plan.tokens_of(e);
  std::vector<std::uint32_t> all_counts(own_counts.size() * size);  // [source][expert]
  ranks.gather_all(own_counts.data(), own_counts.size() * sizeof(std::uint32_t), all_counts.data());
  const auto count = [&](int source, int expert) { return all_counts[source * own_counts.size() + expert]; };

  sent_rows_.assign(size, 0);
  received_rows_.assign(size, 0);
  at_experts_.expert_offset.assign(experts + 1, 0);
  for (int e = 0; e < experts; ++e) {
    sent_rows_[e / experts_per_rank] += own_counts[e];
    std::int32_t rows = 0;
    for (int source = 0; source < size && e / experts_per_rank == ranks.rank(); ++source) rows += count(source, e);
    at_experts_.expert_offset[e + 1] = at_experts_.expert_offset[e] + rows;
  }
  runs_.clear();
  std::vector<Index> next(experts_per_rank);
  for (int e = 0; e < experts_per_rank; ++e) next[e] = static_cast<std::size_t>(at_experts_.expert_offset[first + e]);
  Index arrived = 0;
  for (int source = 0; source < size; ++source)
    for (int e = 0; e < experts_per_rank; ++e) {
      const Index rows = count(source, first + e);
      runs_.push_back({arrived, next[e], rows});
      arrived += rows;
      next[e] += rows;
      received_rows_[source] += static_cast<std::uint32_t>(rows);
    }
}

void ExpertExchange::exchange(ConstMatrix<std::uint8_t> send, const std::vector<std::uint32_t>& sent_rows,
                              Matrix<std::uint8_t> receive, const std::vector<std::uint32_t>& received_rows) const {
  const Ranks::Parts sent(sent_rows, send.cols), received(received_rows, receive.cols);
  if (ranks_->over_nodes())
    all_to_all_over_nodes(*ranks_, send.data, sent, receive.data, received);
  else
    ranks_->all_to_all(send.data, sent, receive.data, received);
}

Index ExpertExchange::rows_here() const {
  return std::accumulate(sent_rows_.begin(), sent_rows_.end(), Index{0});
}

Index ExpertExchange::rows_there() const {
  return at_experts_.expert_offset.back();
}

template <class T>
void ExpertExchange::dispatch_merged(const OperandFormat& format, ConstMatrix<T> tokens, Matrix<T> at_experts) const {
  const RowCodec<T> codec(format, tokens.cols);
  if (codec.copies()) return merged_.send(tokens.data, codec.row_bytes(), at_experts.data);
  thread_local std::vector<std::uint8_t> leaving_memory, arrived_memory;
  const Matrix<std::uint8_t> leaving = sized(leaving_memory, tokens.rows, codec.row_bytes()),
                             arrived = sized(arrived_memory, rows_there(), codec.row_bytes());
  codec.encode(tokens, leaving);
  merged_.send(leaving.data, codec.row_bytes(), arrived.data);
  codec.decode(arrived, at_experts.row_block(0, rows_there()));
}

template <class T>
void ExpertExchange::to_experts(const OperandFormat& format, ConstMatrix<T> rows, Matrix<T> at_experts) const {
  const RowCodec<T> codec(format, rows.cols);
  thread_local std::vector<std::uint8_t> leaving_memory, arrived_memory;
  const Matrix<std::uint8_t> arrived = sized(arrived_memory, rows_there(), codec.row_bytes());
  Matrix<const std::uint8_t> send = bytes_of(rows);
  if (!codec.copies()) {
    const Matrix<std::uint8_t> leaving = sized(leaving_memory, rows_here(), codec.row_bytes());
    codec.encode(rows.row_block(0, rows_here()), leaving);
    send = leaving;
  }
  exchange(send, sent_rows_, arrived, received_rows_);
  parallel_for(to_int(runs_.size()), [&](int i) {
    const Run& run = runs_[i];
    codec.decode(arrived.row_block(run.arrived, run.rows), at_experts.row_block(run.at_expert, run.rows));
  });
}

template <class T>
void ExpertExchange::from_experts(const OperandFormat& format, ConstMatrix<T> at_experts, Matrix<T> rows) const {
  const RowCodec<T> codec(format, rows.cols);
  thread_local std::vector<std::uint8_t> leaving_memory, arrived_memory;
  const Matrix<std::uint8_t> leaving = sized(leaving_memory, rows_there(), codec.row_bytes());
  parallel_for(to_int(runs_.size()), [&](int i) {
    const Run& run = runs_[i];
    codec.encode(at_experts.row_block(run.at_expert, run.rows), leaving.row_block(run.arrived, run.rows));
  });
  if (codec.copies()) return exchange(leaving, received_rows_, bytes_of(rows), sent_rows_);
  const Matrix<std::uint8_t> arrived = sized(arrived_memory, rows_here(), codec.row_bytes());
  exchange(leaving, received_rows_, arrived, sent_rows_);
  codec.decode(arrived, rows.row_block(0, rows_here()));
}

#define INSTANTIATE(T)                                                                                     \
  template void ExpertExchange::dispatch_merged<T>(const OperandFormat&, ConstMatrix<T>, Matrix<T>) const; \
  template void ExpertExchange::to_experts<T>(const OperandFormat&, ConstMatrix<T>, Matrix<T>) const;      \
  template void ExpertExchange::from_experts<T>(const OperandFormat&, ConstMatrix<T>, Matrix<T>) const;
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

template <class T>
RowCodec<T>::RowCodec(const OperandFormat& format, Index dim)
    : format_(format), dim_(dim), copies_(std::is_same_v<T, double> || format.scheme == QuantScheme::fp32) {
  assert(copies_ || format.scheme == QuantScheme::bf16 || format.scheme == QuantScheme::mx);
  assert(format.hadamard == 0);
  row_bytes_ = copies_ ? dim_ * sizeof(T) : bytes_of_row(format, dim_);
}

template <class T>
void RowCodec<T>::encode(ConstMatrix<T> rows, Matrix<std::uint8_t> bytes) const {
  if (copies_) {
    if (rows.rows > 0) std::memcpy(bytes.data, rows.data, rows.rows * row_bytes_);
    return;
  }
  if constexpr (std::is_same_v<T, float>) {
    parallel_slices(rows.rows, kCodedRows, [&](Index first, Index last) {
      for (Index r = first; r < last; ++r) {
        std::uint8_t* to = bytes.row(r);
        if (format_.scheme == QuantScheme::bf16)
          encode_bf16(rows.row(r), dim_, to);
        else
          quantize_rows(format_, rows.row_block(r, 1), to, to + dim_);
      }
    });
  }
}

template <class T>
void RowCodec<T>::decode(ConstMatrix<std::uint8_t> bytes, Matrix<T> rows) const {
  if (copies_) {
    if (rows.rows > 0) std::memcpy(rows.data, bytes.data, rows.rows * row_bytes_);
    return;
  }
  if constexpr (std::is_same_v<T, float>) {
    parallel_slices(rows.rows, kCodedRows, [&](Index first, Index last) {
      for (Index r = first; r < last; ++r) {
        const std::uint8_t* from = bytes.row(r);
        if (format_.scheme == QuantScheme::bf16)
          decode_bf16(from, dim_, rows.row(r));
        else
          dequantize_rows(format_, from, from + dim_, rows.row_block(r, 1));
      }
    });
  }
}

template class RowCodec<float>;
template class RowCodec<double>;

}  // namespace moescope
