#include "widgets/compare/regression_panel.h"

#include <QMouseEvent>
#include <QWhatsThis>
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <tuple>

#include "widgets/look/counted_text.h"
#include "widgets/look/setting_labels.h"
#include "widgets/look/tokens.h"
#include "widgets/panel/controls.h"
#include "widgets/plots/axis.h"
#include "widgets/plots/matrix_plot.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {
namespace {

constexpr int kRoomForMap = 300;    // height of the panel from which it has the map
constexpr double kLimitsToEnd = 2;  // the colours end at so many times the limit of the noise band

QString zText(float z) {
  return std::isfinite(z) ? withMinus(QString::number(z, 'f', 1)) : QString("no spread");
}

// The same number of decimal places in all rows, so that the digits are aligned.
QString alignedText(float value) {
  const float size = std::fabs(value);
  return size == 0 || (size >= 1e-3f && size < 1e3f) ? withMinus(QString::number(value, 'f', 3))
                                                     : formatValue(value, 2);
}

// Whether the figure outside the band is worse, better, or neither.
QString resultText(const GateFigure& figure, const GateExit& exit) {
  if (exit.not_finite_step) return "worse";
  if (!figure.worst) return "differs";
  return exit.is_worse ? "worse" : "better";
}

}  // namespace

RegressionPanel::RegressionPanel(Selection* selection, const JudgedRuns* runs, QWidget* parent)
    : Panel(selection, "Regression", Provenance::measured_here, parent), runs_(runs) {
  showAnswers();
  addMap();
  figures_ = new FigureTable({"Figure", "result", "outside\nsince", "value", "other runs", "z"}, this);
  figures_->setAccessibleName("Figures that left the noise band");
  connect(figures_, &FigureTable::cellClicked, this, &RegressionPanel::showFigure);
  settings_ = new FittedLabel(this);
  settings_->setObjectName("settings_that_differ");
  settings_->setCursor(Qt::PointingHandCursor);
  addBody(new WholeRows(figures_));
  addBody(settings_, 0);
  connect(runs_, &JudgedRuns::changed, this, &RegressionPanel::judge);
  for (auto signal : {&Selection::dataChanged, &Selection::focusChanged})
    connect(selection_, signal, this, &RegressionPanel::judge);
}

void RegressionPanel::addMap() {
  map_ = new TimeHeatMap(selection_, this);
  map_->setAccessibleName("Distance from the other runs by layer");
  map_->setWeights(utilisationWeights());
  map_->refill = [this] { refillMap(); };
  map_->describe = [this](int place, std::int64_t step) { return describe(place, step); };
  map_->fetch = [this](StepRange range, int bins) {
    std::vector<std::uint8_t> codes;
    for (int bin = 0; bin < bins; ++bin) {
      const auto block = blockOf(range.first + (range.size() * (2 * bin + 1)) / (2 * bins));
      for (std::size_t i = 0; i < rows_.size(); ++i)
        codes.push_back(block ? divergingCode(0.5 + row(to_int(i)).z[*block] / (2 * z_at_end_)) : kNoDataCode);
    }
    return codes;
  };
  connect(map_, &TimeHeatMap::rowClicked, this, [this](int place) {
    if (place < std::ssize(rows_)) selection_->setLayer(row(place).figure.layer);
  });
  addBody(map_);
  map_->hide();
}

void RegressionPanel::showEvent(QShowEvent* event) {
  Panel::showEvent(event);
  judge();
}

void RegressionPanel::resizeEvent(QResizeEvent* event) {
  Panel::resizeEvent(event);
  fitMap();
}

// A click on the line of settings lists them.
void RegressionPanel::mousePressEvent(QMouseEvent* event) {
  if (childAt(event->position().toPoint()) == settings_)
    return QWhatsThis::showText(event->globalPosition().toPoint(), settings_->toolTip(), settings_);
  Panel::mousePressEvent(event);
}

void RegressionPanel::fitMap() {
  map_->setVisible(is_judged_ && rows_.size() > 1 && height() >= withType(kRoomForMap, fontMetrics()));
}

// Chooses the layers of the chosen figure; without one, of the first figure of layers in the table, or of all.
void RegressionPanel::chooseRows() {
  std::vector<std::size_t> order;
  for (const std::size_t exit : order_) order.push_back(report_.exits[exit].series);
  for (std::size_t i = 0; i < report_.series.size(); ++i) order.push_back(i);
  const auto is_of_layer = [this](std::size_t i) {
    const GateFigure& figure = report_.series[i].figure;
    return figure.layer != kWholeRun && !figure.operand;
  };
  const auto is_chosen = [&](std::size_t i) { return is_of_layer(i) && report_.series[i].figure.info == mapped_; };
  auto first = std::ranges::find_if(order, is_chosen);
  if (first == order.end()) first = std::ranges::find_if(order, is_of_layer);
  rows_.clear();
  for (std::size_t i = 0; first != order.end() && i < report_.series.size(); ++i)
    if (is_of_layer(i) && report_.series[i].figure.info == report_.series[*first].figure.info) rows_.push_back(i);
  z_at_end_ = 1;
  for (const std::size_t i : rows_) z_at_end_ = std::max<double>(z_at_end_, kLimitsToEnd * report_.series[i].limit);
}

void RegressionPanel::showFigure(int table_row) {
  const GateFigure& figure = report_.series[report_.exits[order_[table_row]].series].figure;
  if (figure.layer == kWholeRun) return;
  if (!figure.operand) mapped_ = figure.info;
  ++shown_reports_;
  chooseRows();
  selection_->setLayer(figure.layer);
  map_->markDirty();
}

std::optional<std::size_t> RegressionPanel::blockOf(std::int64_t step) const {
  const auto next = std::ranges::upper_bound(report_.block_steps, step);
  if (next == report_.block_steps.begin() || next == report_.block_steps.end()) return std::nullopt;
  return next - report_.block_steps.begin() - 1;
}

void RegressionPanel::refillMap() {
  std::vector<Tick> ticks;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const auto exit = std::ranges::find(report_.exits, rows_[i], &GateExit::series);
    const QString layer = QString::number(row(to_int(i)).figure.layer);
    ticks.push_back({static_cast<double>(i), exit == report_.exits.end()
                                                 ? layer
                                                 : QString("%1 (%2)").arg(layer, formatCount(exit->first_step()))});
  }
  const QString figure = rows_.empty() ? QString() : QString::fromUtf8(row(0).figure.info->name);
  const QString end = formatValue(z_at_end_, 2);
  const bool has_rest = !report_.block_steps.empty() && report_.block_steps.back() <= selection_->range().last;
  map_->setLegend({.lut = utilisationLut(isDark(palette())),
                   .low = QStringLiteral("\u2264 \u2212") + end,
                   .high = QStringLiteral("\u2265 +") + end,
                   .caption = QString("standard errors (z)"),
                   .first_code = 2});
  map_->setRowAxis(std::move(ticks),
                   QString("%1, layer (outside since step)").arg(figure) +
                       (has_rest ? "; grey: steps without a value in one of the runs" : ""),
                   false);
  map_->setSource(QString::number(shown_reports_), static_cast<int>(rows_.size()));
  map_->setCurrentRow(
      index_in(rows_, selection_->layer(), [this](std::size_t i) { return report_.series[i].figure.layer; }));
}

// "layer 7, steps 1,240 to 1,259: Entropy of load 0.671, other runs 0.995 \u00b1 0.03, z \u221273.8".
QStringList RegressionPanel::describe(int place, std::int64_t step) const {
  const auto block = blockOf(step);
  if (!block || place >= std::ssize(rows_)) return {};  // a newer report may have other layers
  const GateSeries& series = row(place);
  const QString steps = selection_->rangeText({report_.block_steps[*block], report_.block_steps[*block + 1] - 1});
  return {
      QString("layer %1, %2").arg(series.figure.layer).arg(steps),
      QString("%1 %2").arg(QString::fromUtf8(series.figure.info->name), formatValue(series.value[*block], 3)),
      QString("other runs %1 \u00b1 %2").arg(alignedText(series.good[*block]), alignedText(series.half_width[*block])),
      QString("z %1, limit \u00b1%2").arg(zText(series.z[*block]), formatValue(series.limit, 2))};
}

// The baseline is what the others are compared with, so that it is judged only if there is no candidate.
int RegressionPanel::judgedRun() const {
  const int active = selection_->run(), baseline = runs_->baseline();
  if (active != baseline) return active;
  for (int run = 0; run < std::ssize(selection_->histories()); ++run)
    if (run != baseline && !selection_->isNoiseTwin(run)) return run;
  return active;
}

std::vector<HistoryPtr> RegressionPanel::otherRuns() const {
  std::vector<HistoryPtr> runs = selection_->histories();
  if (!runs.empty()) runs.erase(runs.begin() + judgedRun());
  return runs;
}

QString RegressionPanel::othersText(const QString& several) const {
  return selection_->histories().size() == 2 ? runLetter(*selection_, 1 - judgedRun()) : several;
}

void RegressionPanel::judge() {
  const auto& histories = selection_->histories();
  std::uint64_t sequence = 0;
  for (const HistoryPtr& run : histories) sequence += run->sequence();
  const History* run_to_judge = histories.empty() ? nullptr : histories[judgedRun()].get();
  const bool is_same_run = judged_ == run_to_judge;
  if (is_same_run && judged_sequence_ == sequence) return;
  if (!is_same_run || !isVisible()) {
    judged_ = nullptr;
    map_->hide();
    if (std::exchange(is_judged_, false)) emit judged(judgedRun(), {}, Sign::unsure, {});
  }
  const bool is_judging = isVisible() && histories.size() >= 2;
  setProperty("busy", is_judging);
  if (!is_judging) return;
  judged_ = run_to_judge;
  judged_sequence_ = sequence;
  worker_.compute(
      this, [run = histories[judgedRun()], good = otherRuns()](const auto&) { return judge_gate(run, good); },
      [this](GateReport report) { show(std::move(report)); });
}

void RegressionPanel::show(GateReport report) {
  report_ = std::move(report);
  is_judged_ = true;
  setProperty("busy", false);
  ++shown_reports_;
  order_.resize(report_.exits.size());
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::ranges::stable_sort(order_, {}, [this](std::size_t i) {
    const GateExit& exit = report_.exits[i];
    const bool has_side = report_.series[exit.series].figure.worst.has_value();
    const float distance = std::isfinite(exit.z) ? std::fabs(exit.z) : 0;  // 0: the other runs have no spread
    const float z = exit.not_finite_step ? INFINITY : distance;
    return std::tuple(!exit.not_finite_step && !(has_side && exit.is_worse), !has_side, -z, exit.first_step());
  });
  chooseRows();
  map_->markDirty();
  fitMap();
  figures_->horizontalHeaderItem(3)->setText(runLetter(*selection_, judgedRun()));
  figures_->horizontalHeaderItem(4)->setText(othersText("other\nruns"));
  figures_->setRowCount(static_cast<int>(report_.exits.size()));
  for (int row = 0; row < figures_->rowCount(); ++row) {
    const GateExit& exit = report_.exits[order_[row]];
    const QString tip = printedText(exit_text(report_, exit)), step = formatCount(exit.last_step());
    figures_->setName(row, figureName(exit), tip, row == 0);
    const QString result = resultText(report_.series[exit.series].figure, exit);
    figures_->setFigure(row, 1, {result, result.left(1)}, tip, result == "worse");
    figures_->setFigure(row, 2, {formatCount(exit.first_step())}, tip);
    const QString last = QString("; values of the steps up to %1, the last outside").arg(step);
    figures_->setFigure(row, 3, {alignedText(exit.value)}, tip + last);
    figures_->setFigure(row, 4, {alignedText(exit.good)}, tip + last);
    figures_->setFigure(row, 5, {zText(exit.z)}, tip);
  }
  QStringList settings, names, keys;
  const std::string other_runs = othersText("other runs").toStdString();
  for (GateSetting setting : report_.settings) {
    keys << QString::fromStdString(setting_text(setting, other_runs));
    names << settingLabel(QString::fromStdString(setting.name));
    setting.name = names.back().toStdString();
    settings << QString::fromStdString(setting_text(setting, other_runs));
  }
  const auto one_sided = to_int(std::ranges::count_if(report_.settings, is_one_sided)),
             both = to_int(settings.size()) - one_sided;
  QStringList heads;
  if (both > 0) heads << countedText(both, "setting") + (both == 1 ? " differs" : " differ");
  if (one_sided > 0) heads << countedText(one_sided, "setting") + " not stated by all runs";
  const QString head = heads.join(QStringLiteral(", "));
  settings_->setTexts({head + (settings.isEmpty() ? "" : ": ") + settings.join(QStringLiteral("; ")),
                       head + ": " + names.join(QStringLiteral(", ")), head});
  settings_->setToolTip("<p>" + keys.join('\n').toHtmlEscaped().replace('\n', "<br>") + "</p>");
  constexpr std::array kSigns = {Sign::good, Sign::bad, Sign::attention, Sign::good, Sign::good};  // by GateVerdict
  const Sign sign = kSigns[static_cast<std::size_t>(report_.verdict)];
  QString word = QString::fromLatin1(gate_verdict_name(report_.verdict));
  word.front() = word.front().toUpper();
  emit judged(judgedRun(), report_.verdict == GateVerdict::too_early ? QString() : word, sign,
              placeForms().front() +
                  (names.isEmpty() || names.size() > 2 ? QString() : "; other settings: " + names.join(", ")));
  update();
}

QStringList RegressionPanel::placeForms() const {
  if (report_.exits.empty()) return {": " + countedText(to_int(report_.series.size()), "figure") + " in the band"};
  const auto better = std::ranges::count(report_.exits, false, &GateExit::is_worse);
  const auto result = [this](const GateExit& exit) { return resultText(report_.series[exit.series].figure, exit); };
  const GateExit& strongest = report_.exits[order_.front()];
  // The first figure that left the noise band, of those with the result of the first row.
  const GateExit& exit = *std::ranges::find(report_.exits, result(strongest), result);
  const QString step = QString(" since step %1").arg(formatCount(exit.first_step())),
                strongest_text = (strongest.series == exit.series ? ": " : ", most: ") + figureName(strongest) +
                                 (std::isfinite(strongest.z) ? ", z " + zText(strongest.z) : QString()),
                none_worse = report_.verdict == GateVerdict::differs ? ", none worse" : "";
  QStringList forms{step + strongest_text, ": " + figureName(strongest), step};
  if (better > 0 && report_.verdict != GateVerdict::better)
    forms.prepend(forms.front() + "; " + countedText(better, "figure") + " better" + none_worse);
  return forms;
}

QString RegressionPanel::figureName(const GateExit& exit) const {
  return QString::fromStdString(figure_text(report_.series[exit.series].figure));
}

QString RegressionPanel::status() const {
  if (!is_judged_ || selection_->histories().size() < 2 || report_.verdict == GateVerdict::too_early) return {};
  return QString("%1 against %2, %3, %4")
      .arg(runLetter(*selection_, judgedRun()), othersText("the other runs"), selection_->rangeText(report_.steps),
           countedText(static_cast<int>(report_.series.size()), "figure"));
}

// "No, regressed since step 8: MaxVio, layer 7": says the same whether the loss is judged or not.
Panel::Answer RegressionPanel::answer() const {
  if (selection_->histories().size() < 2) return {{}, {nothingToCompareNotice()}};
  if (!is_judged_) return {};
  constexpr std::array kWords = {"Yes", "No, regressed", "No, differs", "No, better", "Too early"};  // by GateVerdict
  const QString answer_word = kWords[static_cast<std::size_t>(report_.verdict)];
  QStringList forms = report_.verdict == GateVerdict::too_early
                          ? QStringList(QStringLiteral(": ") + printedText(gate_sentence(report_)))
                          : placeForms();
  const bool reads_other_text = report_.other_text_from <= report_.steps.last;
  const QString note = QString("; different text from step %1").arg(formatCount(report_.other_text_from));
  const QString brief = answer_word + forms.back();
  for (QString& form : forms) form = answer_word + form + (reads_other_text ? note : QString());
  return {QString("Is %1 like %2?").arg(runLetter(*selection_, judgedRun()), othersText("the others")),
          forms << brief << answer_word, report_.verdict == GateVerdict::regressed};
}

// A row for each judged figure: of one that left the band the numbers of the panel, of others those of the last steps.
ValueTable RegressionPanel::table() const {
  const std::vector<HistoryPtr> good = otherRuns();
  GateReport report = report_;
  if (!is_judged_ && !good.empty()) report = judge_gate(selection_->histories()[judgedRun()], good);
  ValueTable table({"figure", "result", "first step outside", "last step outside", "value", "other runs",
                    "half width of the noise band", "z"});
  for (std::size_t i = 0; i < report.series.size(); ++i) {
    const GateSeries& series = report.series[i];
    const std::string name = figure_text(series.figure);
    const auto exit = std::ranges::find(report.exits, i, &GateExit::series);
    if (exit == report.exits.end())
      table.add(name, "in the band", TableValue(), TableValue(), table_value(series.value.back()),
                table_value(series.good.back()), table_value(series.half_width.back()), table_value(series.z.back()));
    else
      table.add(name, resultText(series.figure, *exit).toStdString(), exit->first_step(), exit->last_step(),
                table_value(exit->value), table_value(exit->good), table_value(exit->half_width), table_value(exit->z));
  }
  return table;
}

}  // namespace moescope
