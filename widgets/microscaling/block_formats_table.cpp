#include "widgets/microscaling/block_formats_table.h"

#include <QHeaderView>
#include <cmath>

#include "widgets/look/row_delegate.h"
#include "widgets/look/type_scale.h"
#include "widgets/panel/format_text.h"

namespace moescope {
namespace {

constexpr int kBlockScaleColumn = 2, kFormatColumns = 8;

double binades(double largest, double least) {
  return std::log2(largest / least);
}

QString span(double binades) {
  return QString("%1 binades").arg(binades, 0, 'f', 1);
}

QStringList mxRow(const OperandFormat& format) {
  const FormatTraits& f = traits(format.element);
  const double least = f.min_subnormal;
  return {operandFormatLabel(format).section(QLatin1Char(','), 0, 0),
          "32 along a row or column",
          QStringLiteral("E8M0"),
          "none",
          QString::number(bits_per_value(format)),
          span(binades(f.max, least)),
          span(binades(f.max * 0x1p127, least * 0x1p-127)),
          "NaN or infinity: its block becomes NaN"};
}

// Block scales reach from 2^-6, torchao's floor, to 448 (quantize.h).
QStringList nvfp4Row() {
  const FormatTraits& f = traits(kNvfp4Format.element);
  return {QStringLiteral("NVFP4 E2M1"),
          "16 along a row or column",
          "E4M3, 2⁻⁶ to 448",
          QStringLiteral("FP32"),
          QString::number(bits_per_value(kNvfp4Format)),
          span(binades(f.max, f.min_subnormal)),
          span(binades(f.max * 448.0, f.min_subnormal * 0x1p-6)),
          "NaN or infinity: the whole tensor becomes NaN"};
}

QStringList fp8Row(const QString& name, const QString& shared) {
  const FormatTraits& f = traits(ElementFormat::e4m3);
  return {name,
          shared,
          "FP32",
          "none",
          QStringLiteral("8 + 32 / n"),
          span(binades(f.max, f.min_subnormal)),
          "as FP32",
          "NaN or infinity: all that shares the scale becomes NaN"};
}

}  // namespace

BlockFormatsTable::BlockFormatsTable(QWidget* parent) : QTableWidget(parent) {
  std::vector<QStringList> rows;
  for (const NamedFormat& named : named_formats())
    if (named.format.scheme == QuantScheme::mx) rows.push_back(mxRow(named.format));
  const int nvfp4_row = static_cast<int>(rows.size());
  rows.push_back(nvfp4Row());
  rows.push_back(fp8Row(QStringLiteral("FP8 E4M3"), "128, 128 x 128, row or tensor"));
  setRowCount(static_cast<int>(rows.size()));
  setColumnCount(kFormatColumns);
  setHorizontalHeaderLabels({"with scales", "values that share one", "block scale", "tensor scale", "bits/value",
                             "range in a block", "range in a tensor", "special values"});
  for (int row = 0; row < rowCount(); ++row)
    for (int column = 0; column < kFormatColumns; ++column) {
      auto* item = new QTableWidgetItem(rows[static_cast<std::size_t>(row)][column]);
      item->setFlags(Qt::ItemIsEnabled | Qt::ItemIsSelectable);
      setItem(row, column, item);
    }
  item(nvfp4_row, kBlockScaleColumn)
      ->setToolTip(
          "2⁻⁶ is the least block scale of torchao's inference code, and here. NVIDIA's TransformerEngine has no "
          "such floor: scales go down to E4M3's least number, 2⁻⁹, and a block too small for that becomes zeros");
  setAccessibleName("Formats with scales");
  setItemDelegate(new RowDelegate(this));
  setFrameShape(QFrame::NoFrame);
  setShowGrid(false);
  horizontalHeader()->setHighlightSections(false);
  horizontalHeader()->setDefaultAlignment(Qt::AlignLeft | Qt::AlignVCenter);
  verticalHeader()->hide();
  setSelectionBehavior(QAbstractItemView::SelectRows);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  horizontalHeader()->setStretchLastSection(true);
  followFont(this, [this] {
    verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 6);
    resizeColumnsToContents();
    setFixedHeight(horizontalHeader()->sizeHint().height() + rowCount() * (fontMetrics().height() + 6) + 4);
  });
}

QString BlockFormatsTable::csv() const {
  QString text;
  for (int row = -1; row < rowCount(); ++row) {
    QStringList cells;
    for (int column = 0; column < kFormatColumns; ++column)
      cells << QStringLiteral("\"%1\"").arg((row < 0 ? horizontalHeaderItem(column) : item(row, column))->text());
    text += cells.join(QLatin1Char(',')) + QLatin1Char('\n');
  }
  return text;
}

}  // namespace moescope
