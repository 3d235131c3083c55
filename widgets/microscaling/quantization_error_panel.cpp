#include "widgets/microscaling/quantization_error_panel.h"

#include <QPainter>
#include <algorithm>
#include <cmath>

#include "core/findings/quant_watch.h"
#include "widgets/look/tokens.h"
#include "widgets/panel/format_text.h"
#include "widgets/panel/operand_combos.h"
#include "widgets/panel/tensor_text.h"
#include "widgets/plots/color_scale.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {
namespace {

constexpr int kNameGap = 2;           // pixels between the names of two operands
constexpr double kGroupGap = 4;       // pixels between the columns of two weights
constexpr double kFullMark = 0.5;     // share flushed to zero from which its mark has its strongest colour
constexpr double kAlikeDb = 1;        // largest difference between operands that are alike
constexpr double kInkStep = 4;        // dB in which the colour of the numbers changes
constexpr double kSmallLabel = 0.85;  // font scale of labels that are wider than their columns

const QuantFrame* firstOf(const TelemetryFrame& frame, GemmClass gemm_class) {
  const auto first = std::ranges::find(frame.quants, gemm_class, &QuantFrame::gemm_class);
  return first == frame.quants.end() ? nullptr : &*first;
}

QString wholeDb(double db) {
  if (std::isinf(db)) return QStringLiteral("\u221e");
  if (std::isnan(db)) return QString();
  return withMinus(QString::number(std::lround(db)));
}

// The name and its letter.
QStringList directionForms(Direction direction) {
  const QString name = QLatin1String(direction_name(direction));
  return {name, direction == Direction::forward ? "fwd" : name, name.left(1)};
}

// Returns the formats of a class of GEMMs, whose operands may have different formats.
QString formatsOf(const TelemetryFrame& frame, GemmClass gemm_class) {
  QStringList formats;
  for (const QuantFrame& quant : frame.quants)
    if (quant.gemm_class() == gemm_class) formats << formatLabel(quant.format);
  formats.removeDuplicates();
  return formats.join(QLatin1Char('/'));
}

// The first values of the operand's row.
std::vector<TableValue> operandKeys(std::int64_t step, const QuantFrame& quant) {
  return {step,
          std::int64_t{quant.layer},
          std::string(gemm_class_name(quant.gemm_class())),
          std::string(gemm_name(quant.gemm)),
          std::string(operand_name(quant.operand)),
          std::string(direction_name(quant.direction)),
          quant.format.name};
}

// In the order of the findings on formats: first by the share flushed to zero if it is beyond its limit, then by SQNR.
bool losesMore(const QuantFrame& quant, const QuantFrame& other) {
  const auto loss = [](const QuantFrame& operand) {
    const bool is_beyond = operand.underflow > underflow_limit(operand.format);
    return std::pair(is_beyond ? operand.underflow : 0.0f, -operand.sqnr_db);
  };
  return loss(quant) > loss(other);
}

}  // namespace

QuantizationErrorPanel::QuantizationErrorPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Quantization error", Provenance::measured_here, parent) {
  view_ = new MatrixPlot(this);
  view_->refill = [this] { refill(); };
  view_->figure = [this](int row, int column) -> std::optional<FigureTarget> {
    const QuantFrame* quant = quantAt(row, column);
    if (!quant || (isByRun() && runs_[row].run != selection_->run())) return std::nullopt;  // a card is of this run
    return FigureTarget{.key = "sqnr_db", .layer = quant->layer, .step = frameOf(row).step, .quant = *quant};
  };
  view_->describe = [this](int row, int column) { return describe(row, column); };
  view_->decorate = [this](QPainter& painter) {
    paintNumbers(painter);
    paintGroups(painter);
    paintOperands(painter);
  };
  view_->setWeights(sequentialWeights());
  view_->setLegendElsewhere(false);  // the headings of the columns are in the place of the legend
  setPictureLegend([this] { return legend(); });
  followFont(view_, [this] {
    // The headings of the columns are in the place of a caption above the cells.
    view_->setExtraMargins({0, groupHeight() - view_->fontMetrics().height() - kSpace4, 0, 0});
  });
  const auto follow = [this] {  // most steps have no new statistics
    if (!frame_ || isByRun() || frame_ != selection_->quantFrame()) view_->markDirty();
  };
  connect(selection_, &Selection::dataChanged, view_, follow);
  connect(selection_, &Selection::timeChanged, view_, follow);
  connect(selection_, &Selection::focusChanged, view_, [this] {
    if (isByRun() || selection_->tensor().gemm_class() != gemm_class_) return view_->markDirty();
    markCurrent();
    view_->update();
  });
  connect(view_, &MatrixPlot::cellChosen, this, [this](int row, int column) {
    const OperandPlace place = placeAt(row, column);
    if (isByRun()) selection_->setRun(runs_[row].run);
    selection_->setTensor(place);
  });
  connect(view_, &MatrixPlot::cellOpened, this, [this](int row, int column) {
    if (quantAt(row, column)) emit operandOpened(placeAt(row, column), frameOf(row).step);
  });
  rows_choice_ = makeChoice({"by run", "by layer"}, "Rows",
                            "A row for each run, with the layer that loses most, or the layers of one run");
  connect(rows_choice_, &QComboBox::currentIndexChanged, view_, &PlotFrame::markDirty);
  keepState("rows", rows_choice_);
  rows_choice_->hide();
  addControl(rows_choice_);
  addControl(new GemmClassCombo(selection_, this));
  showAnswers([this] { return legend(); });
  addBody(view_);
}

LegendScale QuantizationErrorPanel::legend() const {
  LegendScale legend = sqnrLegend(isDark(palette()));
  legend.swatches = {{QColor(colors(palette()).ink), "chosen", LegendScale::Swatch::frame}};
  if (std::ranges::any_of(cells_, [](const QuantFrame* quant) { return quant && quant->underflow >= kToldShare; }))
    legend.swatches.insert(legend.swatches.end(),
                           {{markColor(kToldShare), QString("%1 % to zero").arg(100 * kToldShare)},
                            {markColor(kFullMark), QString("\u2265 %1 %").arg(100 * kFullMark)}});
  return legend;
}

// Returns the colour of the mark of a share that is flushed to zero, on one scale for all runs and formats.
QColor QuantizationErrorPanel::markColor(double share) const {
  const QColor pale = palette().base().color(), strong(colors(palette()).strong_bar);
  const float weight = 0.2f + 0.8f * static_cast<float>(std::min(1.0, share / kFullMark));
  const auto channel = [weight](float from, float to) { return from + (to - from) * weight; };
  return QColor::fromRgbF(channel(pale.redF(), strong.redF()), channel(pale.greenF(), strong.greenF()),
                          channel(pale.blueF(), strong.blueF()));
}

QString QuantizationErrorPanel::status() const {
  const auto frame = selection_->quantFrame();
  const GemmClass gemm_class = selection_->tensor().gemm_class();
  if (!frame || !firstOf(*frame, gemm_class)) return {};
  if (isByRun()) return timeStatus(frame->step, true) + QString(", a cell: the layer that loses most");
  return QString("%1, %2").arg(timeStatus(frame->step, true), formatsOf(*frame, gemm_class));
}

// Returns the summary of the selected class in these statistics.
QuantizationErrorPanel::Summary QuantizationErrorPanel::summaryOf(std::shared_ptr<const TelemetryFrame> frame) const {
  Summary summary{.frame = std::move(frame)};
  std::vector<double> all;
  const auto larger = [](const QuantFrame* largest, const QuantFrame& quant, float QuantFrame::*share) {
    const bool more = quant.*share > 0 && (!largest || quant.*share > largest->*share);
    return more ? &quant : largest;
  };
  if (!summary.frame) return summary;
  for (const QuantFrame& quant : summary.frame->quants) {
    if (quant.gemm_class() != selection_->tensor().gemm_class() || std::isnan(quant.sqnr_db)) continue;
    all.push_back(quant.sqnr_db);
    summary.highest_db = std::max<double>(summary.highest_db, quant.sqnr_db);
    if (!summary.worst || quant.sqnr_db < summary.worst->sqnr_db) summary.worst = &quant;
    summary.most_underflow = larger(summary.most_underflow, quant, &QuantFrame::underflow);
    summary.most_clipped = larger(summary.most_clipped, quant, &QuantFrame::clipped);
  }
  if (all.empty()) return summary;
  std::ranges::nth_element(all, all.begin() + all.size() / 2);
  summary.median_db = all[all.size() / 2];
  return summary;
}

// Returns the name of an operand: "layer 3, w2 dY" if `brief`, else with the direction.
QString QuantizationErrorPanel::nameOf(const QuantFrame& quant, bool brief) {
  const QString weight = gemm_name(quant.gemm), operand = operand_name(quant.operand);
  return layerName(quant.layer) + ", " + (brief ? weight + ' ' + operand : tensorName(quant));
}

// "Lowest SQNR, routed experts: A 55.3, B 31.2, D 15.8 dB; D: 57 % to zero in layer 2, w1 dY".
Panel::Answer QuantizationErrorPanel::answerOnRuns() const {
  QStringList lowest, rounded;
  Summary worst;
  QString worst_run;
  for (const RunRow& row : runs_) {
    const Summary run_summary = summaryOf(row.frame);
    if (!run_summary.worst) continue;
    const QString letter = runLetter(*selection_, row.run);
    lowest << letter + QLatin1Char(' ') + formatValue(run_summary.worst->sqnr_db, 3);
    rounded << letter + QLatin1Char(' ') + wholeDb(run_summary.worst->sqnr_db);
    if (!run_summary.most_underflow || run_summary.most_underflow->underflow < kToldShare ||
        (worst.most_underflow && worst.most_underflow->underflow >= run_summary.most_underflow->underflow))
      continue;
    worst = run_summary;
    worst_run = letter;
  }
  if (lowest.isEmpty()) return {};
  const QString operands = gemmClassLabel(selection_->tensor().gemm_class());
  const QString all = QString("Lowest SQNR, %1: %2 dB").arg(operands, lowest.join(QStringLiteral(", "))),
                brief = QString("SQNR, %1: %2 dB").arg(operands, rounded.join(QStringLiteral(", "))),
                briefest = QString("Lowest SQNR: %1 dB").arg(rounded.join(QStringLiteral(", ")));
  QStringList forms{all};
  if (const QuantFrame* flushed = worst.most_underflow) {
    const QString more = all + QString("; %1: %2 to zero").arg(worst_run, formatPercent(flushed->underflow));
    forms = {more + QString(" in %1").arg(nameOf(*flushed, true)), more, all};
  }
  return {.question = "What do the formats cost?", .answers = forms << brief << briefest};
}

Panel::Answer QuantizationErrorPanel::answer() const {
  if (isByRun()) return answerOnRuns();
  const Summary all = summary();
  if (!all.worst) return {};
  const bool several = selection_->histories().size() > 1;
  const QString run = several ? runLetter(*selection_, selection_->run()) + ": " : QString();
  Answer answer{.question = "What does the format cost?", .answers = {}};
  if (std::isinf(all.worst->sqnr_db)) {
    answer.answers << run + QString("Nothing: every value is exact");
    return answer;
  }
  const QString lowest = formatValue(all.worst->sqnr_db, 3);
  const QString usual = run + (std::isinf(all.median_db) ? QString("Most values are exact")
                                                         : QString("SQNR %1 dB").arg(formatValue(all.median_db, 3)));
  const auto in = [&](bool brief) {
    return usual + QString("; lowest %1 in %2").arg(lowest, nameOf(*all.worst, brief));
  };
  QString lost;
  if (const QuantFrame* worst = all.most_underflow; worst && worst->underflow > underflow_limit(worst->format)) {
    const QString head =
        run + QString("%1 flushed to zero in %2").arg(formatPercent(worst->underflow), nameOf(*worst, true));
    answer.answers << head + QString("; lowest SQNR %1 dB in %2").arg(lowest, nameOf(*all.worst, true)) << head;
    return answer;
  }
  if (const QuantFrame* worst = all.most_underflow; worst && worst->underflow >= kToldShare)
    lost += QString("; %1 to zero in %2").arg(formatPercent(worst->underflow), nameOf(*worst, true));
  if (const QuantFrame* worst = all.most_clipped; worst && worst->clipped >= kToldShare)
    lost += QString("; %1 clipped in %2").arg(formatPercent(worst->clipped), nameOf(*worst, true));
  if (lost.isEmpty() && all.highest_db - all.worst->sqnr_db < kAlikeDb) {  // says why all cells have one colour
    const QString range = QString("%1 to %2 dB").arg(lowest, formatValue(all.highest_db, 3));
    const QString alike = run + "All operands alike: SQNR " + range;
    answer.answers << alike + ", lowest in " + nameOf(*all.worst, false) << alike << run + "All operands: " + range;
    return answer;
  }
  if (!lost.isEmpty()) answer.answers << in(true) + lost;
  answer.answers << in(false) << in(true) << usual + QString("; lowest %1").arg(lowest)
                 << run + QString("Lowest %1 dB").arg(lowest);
  return answer;
}

void QuantizationErrorPanel::refill() {
  const History* history = selection_->history();
  frame_.reset();
  if (!hasSteps(view_)) return;
  frame_ = selection_->quantFrame();
  gemm_class_ = selection_->tensor().gemm_class();
  if (!frame_ || !firstOf(*frame_, gemm_class_))
    return view_->setNotice(noQuantizationNotice(history->info(), frame_.get(), gemm_class_));
  view_->setNotice({});

  findRuns();
  rows_choice_->setVisible(runs_.size() > 1);
  setProperty("shows_all_runs", isByRun());
  indexCells();
  const int columns = to_int(tensors_.size()), rows = to_int(cells_.size()) / columns;
  std::vector<std::uint8_t> codes;
  for (const QuantFrame* quant : cells_) codes.push_back(quant ? scaleCode(sqnrPosition(quant->sqnr_db)) : kNoDataCode);
  view_->setCells(rows, columns, std::move(codes));
  std::vector<Tick> row_ticks;
  const QStringList names = runNames();
  for (int row = 0; row < rows; ++row)
    row_ticks.push_back({static_cast<double>(row), isByRun() ? names[row] : layerName(layers_[row])});
  view_->setRowAxis(std::move(row_ticks), {});
  view_->setLegend(sqnrLegend(isDark(palette())));
  markCurrent();
}

// Finds the runs whose formats can be side by side.
void QuantizationErrorPanel::findRuns() {
  runs_.clear();
  const auto& histories = selection_->histories();
  for (int run = 0; run < std::ssize(histories) && histories.size() > 1; ++run) {
    const History& history = *histories[run];
    auto frame =
        selection_->isNoiseTwin(run) ? nullptr : history.quant_frame_at(selection_->stepOf(history, frame_->step));
    if (frame && firstOf(*frame, gemm_class_)) runs_.push_back({run, std::move(frame)});
  }
}

// Names of the rows; letters if the names would take much of the width.
QStringList QuantizationErrorPanel::runNames() const {
  QStringList names, letters;
  int widest = 0;
  for (const RunRow& row : runs_) {
    names << runLabel(*selection_, row.run);
    letters << runLetter(*selection_, row.run);
    widest = std::max(widest, view_->fontMetrics().horizontalAdvance(names.back()));
  }
  return 5 * widest > view_->width() ? letters : names;
}

OperandPlace QuantizationErrorPanel::placeAt(int row, int column) const {
  if (const QuantFrame* quant = quantAt(row, column)) return *quant;
  OperandPlace place = tensors_[column];
  place.layer = isByRun() ? selection_->layer() : layers_[row];
  return place;
}

// Finds layers and operands by binary search, since 61 layers have some thousands of operands.
void QuantizationErrorPanel::indexCells() {
  layers_ = layersOf(*frame_, gemm_class_);
  tensors_ = operandsOf(*frame_, gemm_class_);
  for (std::size_t row = 0; isByRun() && row < runs_.size(); ++row) {  // a run may not quantize operands that others do
    std::vector<OperandPlace> all;
    std::ranges::set_union(tensors_, operandsOf(*runs_[row].frame, gemm_class_), std::back_inserter(all), comesBefore);
    tensors_ = std::move(all);
  }
  cells_.assign((isByRun() ? runs_.size() : layers_.size()) * tensors_.size(), nullptr);
  const auto add = [this](const QuantFrame& quant, std::size_t row) {
    OperandPlace place = quant;
    place.layer = 0;
    const auto column = std::ranges::lower_bound(tensors_, place, comesBefore) - tensors_.begin();
    const QuantFrame*& cell = cells_[row * tensors_.size() + column];
    if (!cell || std::isnan(cell->sqnr_db) || losesMore(quant, *cell)) cell = &quant;
  };
  for (std::size_t run = 0; run < (isByRun() ? runs_.size() : 1); ++run)
    for (const QuantFrame& quant : frameOf(run).quants)
      if (quant.gemm_class() == gemm_class_)
        add(quant, isByRun() ? run : std::ranges::lower_bound(layers_, quant.layer) - layers_.begin());
}

void QuantizationErrorPanel::markCurrent() {
  OperandPlace current = selection_->tensor();
  int row = index_in(layers_, std::exchange(current.layer, 0));
  if (isByRun()) row = to_int(std::ranges::find(runs_, selection_->run(), &RunRow::run) - runs_.begin());
  view_->setCurrent(row < view_->rows() ? row : -1, index_in(tensors_, current));
}

bool QuantizationErrorPanel::holds(const QString& text, int lines) const {
  const QFontMetricsF metrics(view_->font());
  const QRectF cell = view_->cellRect(0, 0);
  return cell.width() >= metrics.horizontalAdvance(text) + 2 &&
         cell.height() >= (lines - 1) * metrics.height() + metrics.capHeight() + 4;
}

void QuantizationErrorPanel::paintNumbers(QPainter& painter) const {
  for (int row = 0; row < view_->rows(); ++row)
    for (int column = 0; column < view_->columns(); ++column)
      if (quantAt(row, column)) paintCell(painter, row, column);
}

// Paints the dB, with a decimal if there is room. SQNR hides small values that become zero: from kToldShare on their
// share stands below on a mark, or the mark alone in a corner.
void QuantizationErrorPanel::paintCell(QPainter& painter, int row, int column) const {
  const QRectF box = view_->cellRect(row, column);
  const float to_zero = quantAt(row, column)->underflow;
  const QColor mark = markColor(to_zero);
  const double line = view_->fontMetrics().height();
  const bool loses = to_zero >= kToldShare, tells = loses && holds(QStringLiteral("88 %"), 2);
  const double db = quantAt(row, column)->sqnr_db;
  const bool decimal = std::isfinite(db) && holds(QStringLiteral("88.8"), 1);
  if (loses && !tells) painter.fillRect(QRectF(box.right() - 6, box.bottom() - 6, 5, 5), mark);
  if (tells) {
    const QRectF place(box.center().x() - box.width() / 2 + 2, box.center().y(), box.width() - 4, line);
    painter.fillRect(place, mark);
    painter.setPen(textOn(mark.rgb()));
    painter.drawText(place, Qt::AlignCenter, QString("%1 %").arg(std::lround(100 * to_zero)));
  }
  if (!holds(QStringLiteral("88"), 1)) return;
  // Equal formats have one colour of type.
  painter.setPen(textOn(view_->legend().lut[scaleCode(sqnrPosition(kInkStep * std::floor(db / kInkStep)))]));
  painter.drawText(tells ? box.adjusted(0, 0, 0, -line) : box, Qt::AlignCenter,
                   decimal ? withMinus(QString::number(db, 'f', 1)) : wholeDb(db));
}

// Returns the weights (line 0), or the directions of their GEMMs (line 1), with their columns.
std::vector<QuantizationErrorPanel::Heading> QuantizationErrorPanel::headings(int line) const {
  std::vector<Heading> headings;
  for (int column = 0; column < view_->columns(); ++column) {
    const OperandPlace& place = tensors_[column];
    const bool continues = column > 0 && tensors_[column - 1].gemm == place.gemm &&
                           (line == 0 || tensors_[column - 1].direction == place.direction);
    if (continues)
      headings.back().last = column;
    else
      headings.push_back(
          {column, column,
           line == 0 ? QStringList{QString::fromLatin1(gemm_name(place.gemm))} : directionForms(place.direction)});
  }
  return headings;
}

// Paints the names of the weights above the cells, and below each name the directions of its pairs of operands. A line
// has one size of type, and the longest form of its names for which all have room.
void QuantizationErrorPanel::paintGroups(QPainter& painter) const {
  const QRect cells = view_->cellsRect();
  const QFont usual = painter.font();
  for (int line = 0; line < 2; ++line) {
    const std::vector<Heading> row = headings(line);
    const auto span = [&](const Heading& heading) {
      return view_->cellRect(0, heading.first).united(view_->cellRect(0, heading.last));
    };
    const QFont normal = line == 0 ? semibold(usual) : usual;
    qsizetype form = 0;
    const auto fits = [&](double size) {
      painter.setFont(scaledFont(normal, size));
      return std::ranges::all_of(row, [&](const Heading& heading) {
        return painter.fontMetrics().horizontalAdvance(heading.forms.value(form)) + kGroupGap <= span(heading).width();
      });
    };
    while (!fits(1) && !fits(kSmallLabel)) ++form;  // beyond the last form the texts are empty
    if (line == 1) view_->setToolTip(operandTerms());
    const int high = QFontMetrics(usual).height();
    for (const Heading& heading : row) {
      const QRectF above(span(heading).left(), cells.top() - groupHeight() + line * high - 1, span(heading).width(),
                         high);
      painter.setPen(line == 0 ? palette().text().color() : mutedText(palette()));
      painter.drawText(above, Qt::AlignCenter, heading.forms.value(form));
      if (line == 0 && heading.first > 0)
        painter.fillRect(QRectF(above.left() - kGroupGap / 2, cells.top(), kGroupGap, cells.height() + 1),
                         palette().base());
    }
  }
  painter.setFont(usual);
}

// Paints the names of the operands below the cells, except names that have no room.
void QuantizationErrorPanel::paintOperands(QPainter& painter) const {
  const QFont usual = painter.font();
  const double room = view_->cellRect(0, 0).width();
  int widest = 0;
  const auto name = [&](int column) { return QString::fromLatin1(operand_name(tensors_[column].operand)); };
  for (int column = 0; column < view_->columns(); ++column)
    widest = std::max(widest, painter.fontMetrics().horizontalAdvance(name(column)));
  if (widest + kNameGap > room) painter.setFont(scaledFont(usual, kSmallLabel));
  const QFontMetrics metrics(painter.font());
  const double top = view_->cellsRect().bottom() + kSpace4;
  painter.setPen(mutedText(palette()));
  for (int column = 0; column < view_->columns(); ++column)
    if (metrics.horizontalAdvance(name(column)) + kNameGap <= room)
      painter.drawText(QRectF(view_->cellRect(0, column).left(), top, room, metrics.height()), Qt::AlignCenter,
                       name(column));
  painter.setFont(usual);
}

QStringList QuantizationErrorPanel::describe(int row, int column) const {
  const QuantFrame* quant = quantAt(row, column);
  if (!quant) return {};
  if (isByRun())
    return {runLabel(*selection_, runs_[row].run) + QStringLiteral(", ") + formatLabel(quant->format),
            QString("loses most of all layers: %1").arg(placeName(*quant)),
            QString("SQNR %1 dB, to zero %2").arg(formatValue(quant->sqnr_db, 3), formatPercent(quant->underflow))};
  return QStringList{QString("%1, %2").arg(placeName(placeAt(row, column)), formatLabel(quant->format))} +
         readout(operandKeys(frame_->step, *quant)).mid(1);
}

ValueTable QuantizationErrorPanel::table() const {
  ValueTable table({"step", "layer", "class", "weight", "operand", "direction", "format", "SQNR [dB]:3",
                    "relative error:3", "cosine:6", "underflow [share]", "clipped [share]", "clipped blocks [share]",
                    "amax:3", "crest factor:3", "run"});
  std::vector<RunRow> shown = runs_;
  if (!isByRun()) shown = {{selection_->run(), selection_->quantFrame()}};
  for (const auto& [run, frame] : shown) {
    for (const QuantFrame& quant : frame ? frame->quants : std::vector<QuantFrame>{}) {
      std::vector<TableValue> row = operandKeys(frame->step, quant);
      for (const float figure : {quant.sqnr_db, quant.relative_l2, quant.cosine, quant.underflow, quant.clipped,
                                 quant.clipped_blocks, quant.amax, quant.crest})
        row.push_back(unless_nan(figure));
      row.emplace_back(runLetter(*selection_, run).toStdString());
      table.add_row(row);
    }
  }
  return table;
}

}  // namespace moescope
