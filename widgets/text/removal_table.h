// Tables of what a checkpoint loses without its experts (core/checkpoints/ablation/expert_removal.h): the experts of a
// layer by domain, and models without several experts of every layer.
#pragma once

#include <QString>
#include <QStringList>
#include <cstdint>
#include <vector>

#include "core/frame/expert_scan.h"
#include "widgets/panel/measured_experts.h"
#include "widgets/plots/color_scale.h"

namespace moescope {

struct RemovalTable {
  QStringList rows, columns;
  QString row_title, column_title;
  std::vector<FigureOfPieces> cells;  // change of the loss, nats per token, row by row; NaN: not measured

  const FigureOfPieces& cell(int row, int column) const {
    return cells[static_cast<std::size_t>(row * columns.size() + column)];
  }
  double largest() const;  // size of the largest change
  std::vector<std::uint8_t> codes() const;
  LegendScale legend(bool dark) const;
};

// Columns are experts 0, 1, ...; the first row is all text.
RemovalTable costsByDomain(const ExpertScan& scan, int layer);
RemovalTable prunedModels(const ExpertScan& scan);

// Long to short.
QStringList costAnswers(const ExpertScan& scan);
QStringList pruningAnswers(const ExpertScan& scan);
QString costsCsv(const MeasuredExperts::Scans& scans);
QString pruningCsv(const MeasuredExperts::Scans& scans);

}  // namespace moescope
