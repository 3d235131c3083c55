#include "core/model/layers/operand_tap.h"

#include <algorithm>
#include <utility>

namespace moescope {
namespace {

std::pair<int, std::uint32_t> order_of(const QuantizerCall& call) {
  return {call.expert, call.key.first_row};
}

}  // namespace

OperandTap::OperandTap(const OperandPlace& place)
    : place_(place), source_(place.operand == OperandRole::x ? source_of_x(place.gemm) : place.gemm) {}

bool OperandTap::is_of(int layer, GemmClass gemm_class) const {
  return gemm_class == place_.gemm_class() && (layer == place_.layer || source_ == Gemm::output);
}

int OperandTap::part_of(int layer, Gemm first, int stacked) const {
  if (!is_of(layer, gemm_class_of(first))) return -1;
  const int part = static_cast<int>(source_) - static_cast<int>(first);
  return part >= 0 && part < stacked ? part : -1;
}

template <class T>
void OperandTap::take(const Operand<T>& operand, int expert) {
  const Matrix<const T>& m = operand.matrix;
  Piece piece{{expert, 0, static_cast<std::size_t>(m.rows), operand.key}, {}};
  if (m.rows == 0) return;
  const std::lock_guard lock(mutex_);
  const auto has_same_order = [&](const Piece& other) { return order_of(other.call) == order_of(piece.call); };
  if (std::any_of(pieces_.begin(), pieces_.end(), has_same_order)) return;
  piece.values.resize(m.size());
  for (Index r = 0; r < m.rows; ++r) std::copy_n(m.row(r), m.cols, piece.values.data() + r * m.cols);
  pieces_.push_back(std::move(piece));
  format_ = operand.format;
  axis_ = operand.axis;
  cols_ = m.cols;
}

std::optional<CapturedOperand> OperandTap::finish(int n_experts) {
  if (pieces_.empty()) return std::nullopt;
  std::sort(pieces_.begin(), pieces_.end(),
            [](const Piece& a, const Piece& b) { return order_of(a.call) < order_of(b.call); });
  CapturedOperand captured;
  captured.place = place_;
  captured.format = format_;
  captured.axis = axis_;
  captured.cols = cols_;
  std::vector<std::size_t> rows_of_expert(n_experts);
  for (Piece& piece : pieces_) {
    piece.call.first_row = captured.rows;
    captured.rows += piece.call.rows;
    if (piece.call.expert >= 0) rows_of_expert[piece.call.expert] += piece.call.rows;
    captured.values.insert(captured.values.end(), piece.values.begin(), piece.values.end());
    captured.calls.push_back(piece.call);
    piece.values = {};
  }
  if (place_.gemm_class() == GemmClass::experts) {
    captured.expert_rows.push_back(0);
    for (const std::size_t rows : rows_of_expert) captured.expert_rows.push_back(captured.expert_rows.back() + rows);
  }
  pieces_.clear();
  captured.sums = quantizer_sums(captured);
  return captured;
}

template void OperandTap::take<float>(const Operand<float>&, int);
template void OperandTap::take<double>(const Operand<double>&, int);

}  // namespace moescope
