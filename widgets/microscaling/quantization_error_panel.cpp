#include "widgets/microscaling/quantization_error_panel.h"

#include <QFontInfo>
#include <QPainter>
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"
#include "widgets/panel/metric_text.h"
#include "widgets/panel/operand_combos.h"
#include "widgets/panel/tensor_text.h"

namespace moescope {
namespace {

constexpr double kTickDb = 5, kLeastSpanDb = 10;  // of the colour scale, whose ends are ticks
constexpr double kSmallFont = 0.8;                // of figures in cells too small for the panel's font
constexpr double kLeastGlyphCell = 6;             // logical pixels; lower cells show colour only

QString percentOrNothing(float share) {
  return std::isnan(share) ? QString() : QString::number(share * 100, 'g', 6);
}

const QuantFrame* firstOf(const TelemetryFrame& frame, GemmClass gemm_class) {
  const auto first = std::ranges::find(frame.quants, gemm_class, &QuantFrame::gemm_class);
  return first == frame.quants.end() ? nullptr : &*first;
}

// Operands may have formats of their own.
QString formatsOf(const TelemetryFrame& frame, GemmClass gemm_class) {
  QStringList formats;
  for (const QuantFrame& quant : frame.quants)
    if (quant.gemm_class() == gemm_class) formats << QString::fromStdString(quant.format);
  formats.removeDuplicates();
  return formats.join(QLatin1Char('/'));
}

}  // namespace

QuantizationErrorPanel::QuantizationErrorPanel(Selection* selection, QWidget* parent)
    : Panel(selection, tr("Quantization error"), Provenance::measured_here, parent) {
  view_ = new MatrixPlot(this);
  view_->refill = [this] { refill(); };
  view_->figure = [this](int row, int column) -> std::optional<FigureTarget> {
    const QuantFrame* quant = quantAt(row, column);
    if (!quant) return std::nullopt;
    return FigureTarget{.key = "sqnr_db", .layer = quant->layer, .step = selection_->step(), .quant = *quant};
  };
  view_->describe = [this](int row, int column) { return describe(row, column); };
  view_->decorate = [this](QPainter& painter) {
    paintGlyphs(painter);
    paintGroups(painter);
  };
  view_->setWeights(sequentialWeights());
  followFont(view_, [this] { view_->setExtraMargins({0, groupHeight(), 0, 0}); });
  const auto follow = [this] {  // most steps are not measured
    if (!frame_ || frame_ != selection_->quantFrame()) view_->markDirty();
  };
  connect(selection_, &Selection::dataChanged, view_, follow);
  connect(selection_, &Selection::timeChanged, view_, follow);
  connect(selection_, &Selection::focusChanged, view_, [this] {
    if (selection_->tensor().gemm_class() != gemm_class_) return view_->markDirty();
    markCurrent();
    view_->update();
  });
  connect(view_, &MatrixPlot::cellChosen, this,
          [this](int row, int column) { selection_->setTensor(placeAt(row, column)); });
  connect(view_, &MatrixPlot::cellOpened, this, [this](int row, int column) {
    if (quantAt(row, column)) emit operandOpened(placeAt(row, column), frame_->step);
  });
  addControl(new GemmClassCombo(selection_, this));
  addBody(view_);
}

std::optional<Provenance> QuantizationErrorPanel::kind() const {
  return selection_->quantFrame() ? Panel::kind() : std::nullopt;
}

QString QuantizationErrorPanel::status() const {
  const auto frame = selection_->quantFrame();
  const GemmClass gemm_class = selection_->tensor().gemm_class();
  if (!frame || !firstOf(*frame, gemm_class)) return {};
  const bool indexed = frame == indexed_ && gemm_class == indexed_class_;
  return timeStatus(frame->step, true) + QStringLiteral(", ") + (indexed ? formats_ : formatsOf(*frame, gemm_class));
}

void QuantizationErrorPanel::refill() {
  const History* history = selection_->history();
  frame_.reset();
  if (!history) return view_->setNotice(noRunNotice());
  if (history->steps().empty()) return view_->setNotice(noDataYetNotice());
  frame_ = selection_->quantFrame();
  gemm_class_ = selection_->tensor().gemm_class();
  if (!frame_ || !firstOf(*frame_, gemm_class_))
    return view_->setNotice(noQuantizationNotice(history->info(), frame_.get(), gemm_class_));
  view_->setNotice({});

  if (indexed_ != frame_ || indexed_class_ != gemm_class_) indexCells();
  const int rows = static_cast<int>(layers_.size()), columns = static_cast<int>(tensors_.size());
  std::vector<std::uint8_t> codes;
  const auto [low, high] = colorRange();
  for (const QuantFrame* quant : cells_)
    codes.push_back(quant ? scaleCode((quant->sqnr_db - low) / (high - low)) : kNoDataCode);
  view_->setCells(rows, columns, std::move(codes));
  LegendScale legend{.lut = cividisLut(isDark(palette())), .ticks = {}, .caption = tr("SQNR dB"), .beyond = true};
  for (double db = low; db <= high; db += kTickDb)
    legend.ticks.push_back({(db - low) / (high - low), QString::number(db)});
  view_->setLegend(legend);
  std::vector<Tick> row_ticks, column_ticks;
  for (int row = 0; row < rows; ++row)
    row_ticks.push_back({static_cast<double>(row), layers_[row] < 0 ? QString() : QString::number(layers_[row])});
  for (int column = 0; column < columns; ++column)
    column_ticks.push_back({static_cast<double>(column), QLatin1String(operand_name(tensors_[column].operand))});
  view_->setRowAxis(std::move(row_ticks), gemm_class_ == GemmClass::head ? tr("head") : tr("layer"));
  const bool bars = view_->cellsRect().height() >= rows * kLeastGlyphCell;
  const QStringList captions =
      bars ? QStringList{tr("operand;  bars in cells: underflow below, clipped above, log from 0.001 % to 100 %"),
                         tr("low bar: underflow, top bar: clipped"), tr("low: underflow, top: clipped"), tr("operand")}
           : QStringList{tr("operand;  hover for underflow and clipped values"), tr("operand")};
  view_->setColumnAxis(std::move(column_ticks),
                       firstThatFits(captions, view_->fontMetrics(), view_->cellsRect().width()));
  markCurrent();
}

// From the worst operand to the best but exact ones, outwards to whole ticks.
std::pair<double, double> QuantizationErrorPanel::colorRange() const {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const QuantFrame* quant : cells_) {
    if (!quant || !std::isfinite(quant->sqnr_db)) continue;
    low = std::min(low, static_cast<double>(quant->sqnr_db));
    high = std::max(high, static_cast<double>(quant->sqnr_db));
  }
  if (low > high) return {0, kLeastSpanDb};
  low = kTickDb * std::floor(low / kTickDb);
  return {low, std::max(low + kLeastSpanDb, kTickDb * std::ceil(high / kTickDb))};
}

OperandPlace QuantizationErrorPanel::placeAt(int row, int column) const {
  OperandPlace place = tensors_[static_cast<std::size_t>(column)];
  place.layer = layers_[static_cast<std::size_t>(row)];
  return place;
}

const QuantFrame* QuantizationErrorPanel::quantAt(int row, int column) const {
  return cells_[static_cast<std::size_t>(row) * tensors_.size() + column];
}

// Layers and operands by binary search: 61 layers have some thousands of operands.
void QuantizationErrorPanel::indexCells() {
  indexed_ = frame_;
  indexed_class_ = gemm_class_;
  layers_ = layersOf(*frame_, gemm_class_);
  tensors_ = operandsOf(*frame_, gemm_class_);
  formats_ = formatsOf(*frame_, gemm_class_);
  cells_.assign(layers_.size() * tensors_.size(), nullptr);
  for (const QuantFrame& quant : frame_->quants) {
    if (quant.gemm_class() != gemm_class_) continue;
    const auto row = static_cast<std::size_t>(std::ranges::lower_bound(layers_, quant.layer) - layers_.begin());
    const OperandPlace& place = quant;
    const auto column = std::ranges::lower_bound(tensors_, place, comesBefore) - tensors_.begin();
    cells_[row * tensors_.size() + static_cast<std::size_t>(column)] = &quant;
  }
}

void QuantizationErrorPanel::markCurrent() {
  OperandPlace current = selection_->tensor();
  const auto row = std::ranges::find(layers_, std::exchange(current.layer, 0));
  const auto column = std::ranges::find(tensors_, current);
  view_->setCurrent(row == layers_.end() ? -1 : static_cast<int>(row - layers_.begin()),
                    column == tensors_.end() ? -1 : static_cast<int>(column - tensors_.begin()));
}

// Two bars of log length: what became zero along the bottom, what hit the maximum along the top; the figure where
// there is room for it.
void QuantizationErrorPanel::paintGlyphs(QPainter& painter) const {
  const QRectF cell = view_->cellRect(0, 0);
  if (cell.height() < kLeastGlyphCell) return;
  const double thick = std::clamp(cell.height() / 6, 1.0, 4.0);
  const auto hold_numbers = [&] {
    const QFontMetricsF metrics(painter.font());
    return cell.width() > metrics.horizontalAdvance(QStringLiteral("88.8")) + 3 &&
           cell.height() > metrics.capHeight() + 2 * thick + 3;
  };
  const QFont usual = painter.font();
  bool numbers = hold_numbers();
  if (!numbers) {
    painter.setFont(scaledFont(usual, kSmallFont));
    numbers = hold_numbers();
  }
  for (int row = 0; row < view_->rows(); ++row)
    for (int column = 0; column < view_->columns(); ++column) {
      const QuantFrame* quant = quantAt(row, column);
      if (!quant) continue;
      const QRectF box = view_->cellRect(row, column).adjusted(1.5, 1.5, -1.5, -1.5);
      const QColor ink = textOn(view_->cellColor(row, column));
      if (const double length = glyphLength(quant->underflow) * box.width(); length > 0)
        painter.fillRect(QRectF(box.left(), box.bottom() - thick, std::max(1.0, length), thick), ink);
      if (const double length = glyphLength(quant->clipped) * box.width(); length > 0)
        painter.fillRect(QRectF(box.left(), box.top(), std::max(1.0, length), thick), ink);
      if (!numbers) continue;
      painter.setPen(ink);
      painter.drawText(box, Qt::AlignCenter,
                       std::isinf(quant->sqnr_db) ? tr("exact") : withMinus(QString::number(quant->sqnr_db, 'f', 1)));
    }
  painter.setFont(usual);
}

int QuantizationErrorPanel::groupHeight() const {
  return 2 * view_->fontMetrics().height() + 2;
}

// Above the cells: the weight, and below it the direction of each pair of operands.
void QuantizationErrorPanel::paintGroups(QPainter& painter) const {
  const QFontMetrics metrics(painter.font());
  const QRect cells = view_->cellsRect();
  const auto header = [&](int first, int last, int line, const QString& text, const QString& brief) {
    const QRectF span = view_->cellRect(0, first).united(view_->cellRect(0, last));
    const QRectF place(span.left(), cells.top() - groupHeight() + line * metrics.height() - 1, span.width(),
                       metrics.height());
    painter.setPen(line == 0 ? palette().text().color() : mutedText(palette()));
    painter.drawText(place, Qt::AlignCenter, metrics.horizontalAdvance(text) <= span.width() ? text : brief);
    painter.setPen(palette().base().color());
    painter.drawLine(QPointF(span.left(), cells.top()), QPointF(span.left(), cells.bottom()));
    if (line == 0) painter.drawLine(QPointF(span.left() + 1, cells.top()), QPointF(span.left() + 1, cells.bottom()));
  };
  for (int line = 0; line < 2; ++line)
    for (int first = 0; first < view_->columns();) {
      int last = first;
      const auto same = [&](int other) {
        return tensors_[other].gemm == tensors_[first].gemm &&
               (line == 0 || tensors_[other].direction == tensors_[first].direction);
      };
      while (last + 1 < view_->columns() && same(last + 1)) ++last;
      const QString text = line == 0 ? QString::fromLatin1(gemm_name(tensors_[first].gemm))
                                     : QLatin1String(direction_name(tensors_[first].direction));
      header(first, last, line, text, text.left(1));
      first = last + 1;
    }
}

QStringList QuantizationErrorPanel::describe(int row, int column) const {
  const QuantFrame* quant = quantAt(row, column);
  if (!quant) return {};
  return {
      tr("%1, %2").arg(placeName(placeAt(row, column)), QString::fromStdString(quant->format)),
      tr("SQNR %1 dB, relative L2 %2, cosine %3")
          .arg(formatValue(quant->sqnr_db, 3), formatValue(quant->relative_l2, 3), formatValue(quant->cosine, 6)),
      tr("underflow %1").arg(formatPercent(quant->underflow)),
      tr("clipped %1 of values, %2 of blocks").arg(formatPercent(quant->clipped), formatPercent(quant->clipped_blocks)),
      tr("amax %1, crest %2").arg(formatValue(quant->amax, 3), formatValue(quant->crest, 3))};
}

QString QuantizationErrorPanel::csv() const {
  QString text = QStringLiteral(
      "step,layer,class,weight,operand,direction,format,SQNR [dB],relative L2,cosine,underflow [%],clipped [%],"
      "clipped blocks [%],amax,crest factor\n");
  const auto frame = selection_->quantFrame();
  if (!frame) return text;
  for (const QuantFrame& quant : frame->quants) {
    text += QStringLiteral("%1,%2,%3,%4,%5,%6,%7,")
                .arg(frame->step)
                .arg(quant.layer)
                .arg(QLatin1String(gemm_class_name(quant.gemm_class())), QString::fromLatin1(gemm_name(quant.gemm)),
                     QLatin1String(operand_name(quant.operand)), QLatin1String(direction_name(quant.direction)),
                     QString::fromStdString(quant.format));
    text += QStringLiteral("%1,%2,%3,%4,%5,%6,%7,%8\n")
                .arg(quant.sqnr_db, 0, 'g', 7)
                .arg(quant.relative_l2, 0, 'g', 7)
                .arg(quant.cosine, 0, 'g', 9)
                .arg(percentOrNothing(quant.underflow), percentOrNothing(quant.clipped),
                     percentOrNothing(quant.clipped_blocks))
                .arg(quant.amax, 0, 'g', 7)
                .arg(quant.crest, 0, 'g', 7);
  }
  return text;
}

QString QuantizationErrorPanel::explain() const {
  return tr("<p><b>What quantization does to each operand of a class of GEMMs.</b> The chooser lists the classes that "
            "this run quantizes. Three GEMMs per weight W: forward y = x W<sup>T</sup>, dgrad dx = dY W, wgrad dW = "
            "dY<sup>T</sup> x; each operand is quantized separately along the dimension that its GEMM contracts. "
            "<i>Token payload</i>: the rows that dispatch and combine send between ranks, each token counted "
            "once.</p><p>Colour: SQNR, from the worst operand shown to the best. The bar along the bottom of a cell is "
            "its underflow, the one along the top the "
            "share of clipped values, both of logarithmic length: none at 0.001 %, full at 100 %. SQNR is dominated by "
            "large values and hides lost small ones: read it with the underflow bar.</p><p><b>Click a cell</b> (or "
            "Enter): the tensor itself is captured from the running model and opens in Microscaling as a map of its "
            "block scales, down to the bits of a block. Arrow keys only choose the tensor for the panel Block scale "
            "histogram. For past steps and recordings a copy of the run recomputes the tensor, to the "
            "bit.</p><p><i>exact</i>: no error at all. Rows that arrived as MXFP8 payload are representable already, "
            "so quantizing them to MXFP8 again along the same blocks is exact.</p>") +
         metricCards({"sqnr_db", "underflow", "clipped", "clipped_blocks", "relative_l2", "cosine", "crest", "amax"});
}

}  // namespace moescope
