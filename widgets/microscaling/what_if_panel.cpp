#include "widgets/microscaling/what_if_panel.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <array>
#include <cmath>

#include "widgets/look/fitted_text.h"
#include "widgets/look/tokens.h"
#include "widgets/panel/format_text.h"
#include "widgets/panel/tensor_text.h"

namespace moescope {
namespace {

constexpr int kCellGap = 1;
constexpr int kMaxRowHeight = 56;  // with the usual font size

// Limit on the elements, about 0.3 s; larger tensors are sampled.
constexpr std::size_t kMaxTriedElements = std::size_t{4} << 20;

// Difference of the SQNRs as the cells show them, to a tenth.
double difference_in_db(const QuantSums& sums, const QuantSums& chosen) {
  return (std::round(10 * sums.sqnr_db()) - std::round(10 * chosen.sqnr_db())) / 10;
}

}  // namespace

WhatIfTable::WhatIfTable(QWidget* parent) : PlotFrame(parent) {
  setAccessibleName("This tensor in every format");
}

void WhatIfTable::setFigures(std::vector<WhatIfRow> rows, std::vector<WhatIfRow> schemes) {
  rows_ = std::move(rows);
  schemes_ = std::move(schemes);
  markDirty();
}

void WhatIfTable::setChoice(const OperandFormat& format, BlockAxis axis) {
  choice_ = format;
  axis_ = axis;
  markDirty();
}

// Returns the selected format, or MXFP8 E4M3 if its scales are not powers of two, for which the table has no cell.
OperandFormat WhatIfTable::mxChoice() const {
  return choice_.scheme == QuantScheme::mx ? choice_ : mx_format(ElementFormat::e4m3);
}

const WhatIfRow& WhatIfTable::rowOf(const Cell& cell) const {
  OperandFormat format = mxChoice();
  format.element = static_cast<ElementFormat>(cell.format);
  if (columns_ == WhatIfColumns::block_sizes)
    format.block = kWhatIfBlocks[cell.column];
  else
    format.rule = static_cast<ScaleRule>(cell.column);
  return rows_[std::max(0, what_if_index(format, axis_))];
}

double WhatIfTable::valueOf(const QuantSums& sums) const {
  switch (metric_) {
    case WhatIfMetric::sqnr:
      return sums.sqnr_db();
    case WhatIfMetric::underflow:
      return sums.underflow_share();
    case WhatIfMetric::clipped:
      return sums.clipped_share();
  }
  return 0;
}

QString WhatIfTable::textOf(const QuantSums& sums) const {
  const double value = valueOf(sums);
  if (metric_ != WhatIfMetric::sqnr) return formatPercent(value);
  if (std::isnan(value)) return QString("NaN");
  if (std::isinf(value)) return QString("exact");
  return withMinus(QString::number(value, 'f', 1));
}

// Returns the position on the colour scale, whose strong end is less SQNR or more loss. Shares enter with their square
// root, so that 0.1 % is visible beside 90 %.
double WhatIfTable::position(double value) const {
  return metric_ == WhatIfMetric::sqnr ? sqnrPosition(value) : std::sqrt(value);
}

QMargins WhatIfTable::margins() const {
  return {fontMetrics().horizontalAdvance("Block size") + kSpace12, fontMetrics().height() + kSpace4, 0, 0};
}

bool WhatIfTable::showsSchemes() const {
  const int line = fontMetrics().height();
  return !schemes_.empty() && plotRect().height() - (2 * line + kSpace16) >= kNumElementFormats * (line + 2);
}

QRect WhatIfTable::cellRect(int format, int column) const {
  const QRect plot = plotRect();
  const int width = std::max(8, plot.width() / columnCount());
  const int height = std::clamp((plot.height() - schemesHeight()) / kNumElementFormats, fontMetrics().height(),
                                withType(kMaxRowHeight));
  return {plot.left() + column * width, plot.top() + format * height, width - kCellGap, height - kCellGap};
}

QRect WhatIfTable::schemeRect(int scheme) const {
  const QRect plot = plotRect();
  const int line = fontMetrics().height(), top = cellRect(kNumElementFormats, 0).top() + line + kSpace12;
  const int width = std::max(8, (plot.right() + 1) / kWhatIfSchemes);
  return {scheme * width, top, width - kCellGap, line + kSpace4};
}

const WhatIfRow& WhatIfTable::schemeRow(int scheme) const {
  return schemes_[static_cast<int>(axis_) * kWhatIfSchemes + scheme];
}

void WhatIfTable::paintSchemes(QPainter& painter) const {
  if (!showsSchemes()) return;
  const QFont usual = painter.font();
  const QRect first = schemeRect(0);
  painter.setPen(mutedText(palette()));
  painter.drawText(QRect(0, first.top() - fontMetrics().height() - 2, width(), fontMetrics().height()),
                   Qt::AlignLeft | Qt::AlignVCenter, "Scales that are not powers of two");
  for (int scheme = 0; scheme < kWhatIfSchemes; ++scheme) {
    const WhatIfRow& row = schemeRow(scheme);
    const QRect box = schemeRect(scheme), inner = box.adjusted(kSpace8, 0, -kSpace8, 0);
    const QRgb color = colorOf(row.sums);
    painter.fillRect(box, QColor(color));
    painter.setPen(textOn(color));
    painter.setFont(semibold(usual));
    const QString value = textOf(row.sums);
    const int value_width = painter.fontMetrics().horizontalAdvance(value) + kSpace4;
    painter.drawText(inner, Qt::AlignRight | Qt::AlignVCenter, value);
    painter.setFont(usual);
    const QString name = shortFormatLabel(row.format);
    painter.drawText(
        inner, Qt::AlignLeft | Qt::AlignVCenter,
        fittingText({name, name.section(QLatin1Char(' '), -1)}, painter.fontMetrics(), inner.width() - value_width));
  }
}

// Returns the cell or scheme at a position; nullptr if there is none.
const WhatIfRow* WhatIfTable::rowAt(QPoint position) const {
  for (int format = 0; format < kNumElementFormats && !rows_.empty(); ++format)
    for (int column = 0; column < columnCount(); ++column)
      if (cellRect(format, column).contains(position)) return &rowOf({format, column});
  for (int scheme = 0; scheme < kWhatIfSchemes && showsSchemes(); ++scheme)
    if (schemeRect(scheme).contains(position)) return &schemeRow(scheme);
  return nullptr;
}

WhatIfTable::Cell WhatIfTable::choiceCell() const {
  int column = static_cast<int>(choice_.rule);
  if (columns_ == WhatIfColumns::block_sizes) {
    const auto found = std::find(kWhatIfBlocks.begin(), kWhatIfBlocks.end(), choice_.block);
    column = found == kWhatIfBlocks.end() ? -1 : to_int(found - kWhatIfBlocks.begin());
  }
  return {static_cast<int>(choice_.element), choice_.scheme == QuantScheme::mx ? column : -1};
}

int WhatIfTable::schemeOfChoice() const {
  if (choice_.scheme == QuantScheme::mx) return -1;
  for (int scheme = 0; scheme < kWhatIfSchemes && !schemes_.empty(); ++scheme)
    if (schemeRow(scheme).format == choice_) return scheme;
  return -1;
}

const QuantSums* WhatIfTable::sumsOf(ElementFormat element, BlockAxis axis) const {
  OperandFormat format = mxChoice();
  format.element = element;
  const int index = what_if_index(format, axis);
  return index < 0 || rows_.empty() ? nullptr : &rows_[index].sums;
}

const QuantSums* WhatIfTable::chosenSums() const {
  if (const int scheme = schemeOfChoice(); scheme >= 0) return &schemeRow(scheme).sums;
  return choice_.scheme == QuantScheme::mx ? sumsOf(choice_.element, axis_) : nullptr;
}

void WhatIfTable::paintHeads(QPainter& painter) const {
  const QFont usual = painter.font();
  const QFontMetrics metrics(usual);
  const bool sizes = columns_ == WhatIfColumns::block_sizes;
  const auto above = [&](const QRect& cell, int left_x) {
    return QRect(left_x, cell.top() - metrics.height() - 2, cell.right() + 1 - left_x, metrics.height());
  };
  painter.setPen(mutedText(palette()));
  const QRect corner = cellRect(0, 0);
  painter.drawText(above(corner.translated(-corner.width(), 0), 0), Qt::AlignLeft | Qt::AlignVCenter,
                   sizes ? QString("Block size") : QString("Scale rule"));
  for (int column = 0; column < columnCount(); ++column) {
    const QRect cell = cellRect(0, column);
    painter.drawText(above(cell, cell.left()), Qt::AlignCenter,
                     sizes ? QString::number(kWhatIfBlocks[column]) : scaleRuleLabel(static_cast<ScaleRule>(column)));
  }
  painter.setPen(palette().text().color());
  for (int format = 0; format < kNumElementFormats; ++format) {
    const QRect cell = cellRect(format, 0);
    const bool chosen = choice_.scheme == QuantScheme::mx && format == static_cast<int>(choice_.element);
    painter.setFont(chosen ? semibold(usual) : usual);
    painter.drawText(QRect(0, cell.top(), cell.left(), cell.height()), Qt::AlignLeft | Qt::AlignVCenter,
                     elementFormatLabel(static_cast<ElementFormat>(format)));
  }
  painter.setFont(usual);
}

void WhatIfTable::paintCell(QPainter& painter, const Cell& cell) const {
  const QRect box = cellRect(cell.format, cell.column);
  const QuantSums& sums = rowOf(cell).sums;
  const QRgb color = colorOf(sums);
  painter.fillRect(box, QColor(color));
  painter.setPen(textOn(color));
  const QString text = textOf(sums);
  painter.drawText(box, Qt::AlignCenter,
                   fittingText({text, text.section(QLatin1Char(' '), 0, 0)}, painter.fontMetrics(), box.width()));
}

void WhatIfTable::paintData(QPainter& painter) {
  if (rows_.empty()) return;
  paintHeads(painter);
  for (int format = 0; format < kNumElementFormats; ++format)
    for (int column = 0; column < columnCount(); ++column) paintCell(painter, {format, column});
  paintSchemes(painter);
}

void WhatIfTable::paintOverlay(QPainter& painter) {
  if (rows_.empty()) return PlotFrame::paintOverlay(painter);
  const Cell current = choiceCell();
  if (current.column >= 0) paintFrame(painter, cellRect(current.format, current.column).adjusted(1, 1, -1, -1));
  if (const int scheme = schemeOfChoice(); scheme >= 0 && showsSchemes())
    paintFrame(painter, schemeRect(scheme).adjusted(1, 1, -1, -1));
  PlotFrame::paintOverlay(painter);
}

QStringList WhatIfTable::readout(const WhatIfRow& row) const {
  return {QString("%1, %2").arg(operandFormatLabel(row.format), blockAxisLabel(row.axis)),
          QString("SQNR %1 dB").arg(formatValue(row.sums.sqnr_db(), 4)),
          QString("flushed to zero %1").arg(formatPercent(row.sums.underflow_share())),
          QString("clipped %1 of elements, %2 of blocks")
              .arg(formatPercent(row.sums.clipped_share()), formatPercent(row.sums.clipped_blocks_share()))};
}

double WhatIfTable::gainOfNvfp4() const {
  const QuantSums* chosen = chosenSums();
  const auto nvfp4 = std::ranges::find_if(
      schemes_, [&](const WhatIfRow& row) { return row.axis == axis_ && row.format.scheme == QuantScheme::nvfp4; });
  const bool is_mxfp4 = choice_.scheme == QuantScheme::mx && choice_.element == ElementFormat::e2m1;
  return is_mxfp4 && chosen && nvfp4 != schemes_.end() ? difference_in_db(nvfp4->sums, *chosen) : std::nan("");
}

void WhatIfTable::choose(const WhatIfRow& row) {
  const OperandFormat format = row.format;
  const BlockAxis axis = row.axis;
  const QStringList lines = readout(row);
  setChoice(format, axis);
  emit chosen(format, axis);
  emit readoutChanged(lines.join(QStringLiteral("   ")));
}

QStringList WhatIfTable::readoutAt(QPoint position) const {
  const WhatIfRow* row = rowAt(position);
  return row ? readout(*row) : QStringList();
}

void WhatIfTable::mousePressEvent(QMouseEvent* event) {
  const WhatIfRow* row = event->button() == Qt::LeftButton ? rowAt(event->pos()) : nullptr;
  if (row) choose(*row);
}

void WhatIfTable::keyPressEvent(QKeyEvent* event) {
  if (rows_.empty()) return PlotFrame::keyPressEvent(event);
  const QPoint arrow = arrowOf(event);
  if (arrow.isNull()) return PlotFrame::keyPressEvent(event);
  const Cell cell = choiceCell();
  choose(rowOf({std::clamp(cell.format + arrow.y(), 0, kNumElementFormats - 1),
                std::clamp(std::max(0, cell.column) + arrow.x(), 0, columnCount() - 1)}));
}

WhatIfPanel::WhatIfPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "What if", Provenance::measured_here, parent) {
  table_ = new WhatIfTable(this);
  metric_ = makeChoice({"SQNR", "flushed to zero", "clipped"}, "Figure",
                       "Figure in the cells; read SQNR together with what is flushed to zero");
  connect(metric_, &QComboBox::currentIndexChanged, table_, &WhatIfTable::setMetric);
  columns_ =
      makeChoice({"by block size", "by scale rule"}, "Columns",
                 "Setting that differs between the columns. E4M3 rounds a value to the same 3 bits in a block of any "
                 "size; E2M3 has as many bits and few exponents, so it comes near E4M3 in narrow blocks");
  connect(columns_, &QComboBox::currentIndexChanged, table_, &WhatIfTable::setColumns);
  cancel_ = new QAction("Stop computing", this);
  cancel_->setEnabled(false);
  connect(cancel_, &QAction::triggered, this, &WhatIfPanel::cancel);
  addControl(columns_);
  addOption(metric_);
  addOption(cancel_);
  showAnswers();
  addBody(table_);
  table_->setNotice(noTensorNotice());
  connect(table_, &WhatIfTable::chosen, this, &WhatIfPanel::chosen);
}

void WhatIfPanel::setSource(const TensorSource& source, std::size_t slice) {
  const int request = ++request_;
  note_.clear();
  lengths_ = {to_int(source.cols()), source.grouped() ? 0 : to_int(source.rows())};
  table_->setFigures({}, {});
  table_->setNotice(source.valid() ? QString("Computing") : noTensorNotice());
  if (!source.valid()) return cancel();
  cancel_->setEnabled(true);
  worker_.start([this, request, source, slice](std::stop_token stop) {
    const TensorSource::Sample sample = source.sample(slice, kMaxTriedElements);
    const ConstMatrix<float> values{sample.values.data(), sample.rows, sample.cols, sample.cols};
    std::vector<WhatIfRow> rows = what_if(values, stop, sample.row_groups);
    std::vector<WhatIfRow> schemes = what_if_schemes(values, stop, sample.row_groups);
    if (rows.empty() || schemes.empty()) return;
    const double all = source.rows() * static_cast<double>(source.cols());
    const QString step = source.captured() ? QString(", step %1").arg(formatCount(source.captured()->step)) : "";
    QString note = source.name() + step + QString(", all %1 values").arg(formatCount(all));
    if (!sample.whole)
      note = QString("%1%2, sampled: %3 of %4 values, %5")
                 .arg(source.name(), step, formatCount(sample.values.size()), formatCount(all),
                      source.grouped() ? QString("whole experts") : QString("in tiles of 512 × 512"));
    QMetaObject::invokeMethod(
        this,
        [this, request, rows = std::move(rows), schemes = std::move(schemes), note]() mutable {
          if (request != request_) return;
          cancel_->setEnabled(false);
          note_ = note;
          table_->setNotice({});
          table_->setFigures(std::move(rows), std::move(schemes));
          update();
        },
        Qt::QueuedConnection);
  });
}

void WhatIfPanel::cancel() {
  ++request_;
  worker_.cancel();
  cancel_->setEnabled(false);
  if (table_->rows().empty() && table_->notice() == QString("Computing")) table_->setNotice("Cancelled");
  table_->markDirty();
}

QString WhatIfPanel::status() const {
  if (table_->rows().empty()) return {};
  const bool along_rows = table_->axis() == BlockAxis::row;
  const int length = lengths_[along_rows ? 0 : 1];
  const auto whole = std::ranges::lower_bound(kWhatIfBlocks, length);
  QString text = note_ + ", " + (metric_->currentIndex() == 0 ? "SQNR in dB" : metric_->currentText());
  if (length > 0 && columns_->currentIndex() == 0 && kWhatIfBlocks.end() - whole > 1)
    text += QString("; equal from %1 on: a %2 has %3 values")
                .arg(*whole)
                .arg(along_rows ? QString("row") : QString("column"))
                .arg(length);
  return text;
}

// The answer has the figures of the selected element format, compares it with the best and the worst format, and names
// the other axis if it is better.
Panel::Answer WhatIfPanel::answer() const {
  const QuantSums* chosen = table_->chosenSums();
  if (!chosen || !std::isfinite(chosen->sqnr_db())) return {};
  constexpr double kOtherAxis = 0.95;  // dB
  const auto difference = [&](const QuantSums* sums) { return sums ? difference_in_db(*sums, *chosen) : 0.0; };
  const auto decibels = [](double db) { return QString::number(std::fabs(db), 'f', 1); };
  std::array<double, kNumElementFormats> gains_of_formats{};
  for (int i = 0; i < kNumElementFormats; ++i)
    if (const double gain = difference(table_->sumsOf(static_cast<ElementFormat>(i), table_->axis()));
        std::isfinite(gain))
      gains_of_formats[i] = gain;
  const auto lowest = std::ranges::min_element(gains_of_formats), highest = std::ranges::max_element(gains_of_formats);
  const auto label = [&](auto gain) {  // empty: a difference that rounds to 0
    return *gain == 0 ? QString() : elementFormatLabel(static_cast<ElementFormat>(gain - gains_of_formats.begin()));
  };
  const QString best = label(highest), worst = label(lowest);
  const BlockAxis other = table_->axis() == BlockAxis::row ? BlockAxis::column : BlockAxis::row;
  const bool is_mx = table_->choice().scheme == QuantScheme::mx;
  const double turned = is_mx ? difference(table_->sumsOf(table_->choice().element, other)) : 0.0;
  const QString chosen_text =
      QString("SQNR %1 dB, flushed to zero: %2")
          .arg(QString::number(chosen->sqnr_db(), 'f', 1), formatPercent(chosen->underflow_share()));
  QString gains = best.isEmpty() ? QString("; no other format has a higher SQNR")
                                 : QString("; %2 dB higher in %1").arg(best, decibels(*highest));
  if (const double nvfp4 = table_->gainOfNvfp4(); !best.isEmpty() && !std::isnan(nvfp4))
    gains = QString("; %1 dB %2 in NVFP4, which has 4 bits, too, and blocks of 16; %3 dB higher in %4")
                .arg(decibels(nvfp4), nvfp4 < 0 ? QString("lower") : QString("higher"), decibels(*highest), best);
  const QString loses = worst.isEmpty() ? QString() : QString(", %2 dB lower in %1").arg(worst, decibels(*lowest));
  Answer answer;
  if (std::isfinite(turned) && turned >= kOtherAxis)
    answer.answers << chosen_text + gains + loses +
                          QString("; %2 dB higher with blocks %1").arg(blockAxisLabel(other), decibels(turned));
  answer.answers << chosen_text + gains + loses << chosen_text + gains << chosen_text;
  return answer;
}

ValueTable WhatIfPanel::table() const {
  ValueTable table({"axis", "block", "format", "rule", "SQNR [dB]", "underflow [share]", "clipped [share]",
                    "clipped blocks [share]", "mean crest"});
  const auto add = [&](const WhatIfRow& row, const TableValue& block, const std::string& format,
                       const std::string& rule) {
    table.add(std::string(row.axis == BlockAxis::row ? "row" : "column"), block, format, rule, row.sums.sqnr_db(),
              row.sums.underflow_share(), row.sums.clipped_share(), row.sums.clipped_blocks_share(),
              row.sums.mean_crest());
  };
  for (const WhatIfRow& row : table_->rows())
    add(row, table_value(row.format.block), traits(row.format.element).name, scale_rule_name(row.format.rule));
  for (const WhatIfRow& row : table_->schemes()) add(row, {}, operandFormatLabel(row.format).toStdString(), {});
  return table;
}

}  // namespace moescope
