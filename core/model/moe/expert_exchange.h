// The all-to-alls of one MoE layer whose experts are spread over ranks: they send token rows to the experts and back.
//
// Legend: E experts, R ranks; expert e is on rank e / (E / R). N rows of this rank (T*K slots, grouped by expert), M
// rows that arrive, D values per row. Rows arrive in the order of the whole batch: grouped by expert, within an expert
// by source rank, and then in token order. Therefore an expert gets its rows in the same order as in a single process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/cluster/ranks/two_hop.h"
#include "core/model/moe/dispatch.h"
#include "core/numerics/operand.h"

namespace moescope {

class ExpertExchange {
 public:
  // Exchanges counts, so that each rank knows how many rows its experts receive. `own_plan` is the plan of this rank's
  // tokens, whose experts are topk_TK.
  void plan(const DispatchPlan& own_plan, const std::vector<std::int32_t>& topk_TK, Ranks& ranks);

  // The plan of the rows [M] of this rank's experts; other experts have no rows. Only expert_offset is filled.
  const DispatchPlan& at_experts() const { return at_experts_; }

  // Sends tokens_TD -> at_experts_MD, each token once per node and once per rank. Only for ranks over several nodes.
  // Here and below, rows are sent in `format`, to which they must be rounded (RowCodec).
  template <class T>
  void dispatch_merged(const OperandFormat& format, ConstMatrix<T> tokens, Matrix<T> at_experts) const;
  // Send rows_ND -> at_experts_MD, and back.
  template <class T>
  void to_experts(const OperandFormat& format, ConstMatrix<T> rows, Matrix<T> at_experts) const;
  template <class T>
  void from_experts(const OperandFormat& format, ConstMatrix<T> at_experts, Matrix<T> rows) const;

 private:
  struct Run {
    Index arrived, at_expert, rows;  // first row in the order of arrival, first row at the expert, number of rows
  };
  Index rows_here() const;   // N
  Index rows_there() const;  // M

  // Sends and receives coded rows, [rows, bytes of a row] without gaps: sent_rows_R to the ranks, received_rows_R from
  // them.
  void exchange(ConstMatrix<std::uint8_t> send, const std::vector<std::uint32_t>& sent_rows,
                Matrix<std::uint8_t> receive, const std::vector<std::uint32_t>& received_rows) const;

  Ranks* ranks_ = nullptr;
  MergedDispatch merged_;  // for over_nodes
  DispatchPlan at_experts_;
  std::vector<std::uint32_t> sent_rows_, received_rows_;  // [R]
  std::vector<Run> runs_;                                 // one for each source and expert
};

// Encodes token rows for the transfer between ranks, as bytes of the format to which they were rounded.
//
// Legend: D values per row. fp32: 4 D bytes; bf16: 2 D; mx with E4M3 and blocks of 32: D codes, then D / 32 scale bytes
// (the last block of a row may be shorter). A row has the number of bytes that bytes_per_token() of parallel/volumes.h
// returns. Rows that were rounded to the format are decoded to equal bits, except for the payload of NaNs; other rows
// are rounded. Values of type double are sent unchanged: they are for gradient checks.
template <class T>
class RowCodec {
 public:
  // `format` must be plain, bf16 or mx without rotation.
  RowCodec(const OperandFormat& format, Index dim);

  Index row_bytes() const { return row_bytes_; }
  bool copies() const { return copies_; }  // true if rows are sent as they are in memory
  // `bytes` is [rows, row_bytes()]. Neither matrix has gaps.
  void encode(ConstMatrix<T> rows, Matrix<std::uint8_t> bytes) const;
  void decode(ConstMatrix<std::uint8_t> bytes, Matrix<T> rows) const;

 private:
  OperandFormat format_;
  Index dim_, row_bytes_;
  bool copies_;
};

}  // namespace moescope
