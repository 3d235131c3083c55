#include "widgets/compare/regression_panel.h"

#include <QHeaderView>
#include <cmath>

#include "widgets/look/counted_text.h"
#include "widgets/look/tokens.h"
#include "widgets/plots/axis.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {
namespace {

QString zText(float z) {
  return std::isfinite(z) ? withMinus(QString::number(z, 'f', 1)) : QString("no spread");
}

}  // namespace

RegressionPanel::RegressionPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Regression", Provenance::measured_here, parent) {
  showAnswers();
  figures_ = new FigureTable({"Figure", "since step", "value", "other runs", "z"}, this);
  figures_->setAccessibleName("Figures that left the noise band");
  figures_->horizontalHeader()->setSectionResizeMode(0, QHeaderView::Fixed);
  figures_->horizontalHeaderItem(0)->setTextAlignment(Qt::AlignLeft | Qt::AlignBottom);
  settings_ = new FittedLabel(this);
  settings_->setObjectName("settings_that_differ");
  addBody(figures_);
  addBody(settings_, 0);
  for (auto signal : {&Selection::dataChanged, &Selection::focusChanged})
    connect(selection_, signal, this, &RegressionPanel::judge);
}

void RegressionPanel::showEvent(QShowEvent* event) {
  Panel::showEvent(event);
  judge();
}

std::vector<HistoryPtr> RegressionPanel::otherRuns() const {
  std::vector<HistoryPtr> runs = selection_->histories();
  if (!runs.empty()) runs.erase(runs.begin() + selection_->run());
  return runs;
}

void RegressionPanel::judge() {
  const auto& histories = selection_->histories();
  std::uint64_t sequence = 0;
  for (const HistoryPtr& run : histories) sequence += run->sequence();
  const bool is_same_run = judged_ == selection_->history();
  if (is_same_run && judged_sequence_ == sequence) return;
  if (!is_same_run || !isVisible()) {
    judged_ = nullptr;
    if (std::exchange(is_judged_, false)) emit judged({}, Sign::unsure, {});
  }
  if (!isVisible() || histories.size() < 2) return;
  judged_ = selection_->history();
  judged_sequence_ = sequence;
  worker_.start([this, run = histories[selection_->run()], good = otherRuns()](const std::stop_token& stop) {
    GateReport report = judge_gate(run, good);
    if (!stop.stop_requested())
      QMetaObject::invokeMethod(
          this, [this, report = std::move(report)]() mutable { show(std::move(report)); }, Qt::QueuedConnection);
  });
}

void RegressionPanel::show(GateReport report) {
  report_ = std::move(report);
  is_judged_ = true;
  figures_->setRowCount(static_cast<int>(report_.exits.size()));
  int figure_width = 0;
  for (int row = 0; row < figures_->rowCount(); ++row) {
    const GateExit& exit = report_.exits[row];
    const QString figure = figureName(exit);
    figure_width = std::max(figure_width, QFontMetrics(semibold(figures_->font())).horizontalAdvance(figure));
    const QString tip = printedText(exit_text(report_, exit));
    figures_->setFigure(row, 0, {figure}, tip, row == 0);
    figures_->item(row, 0)->setTextAlignment(Qt::AlignLeft | Qt::AlignVCenter);
    figures_->setFigure(row, 1, {formatCount(exit.first_step())}, tip);
    figures_->setFigure(row, 2, {formatValue(exit.value, 3)}, tip);
    figures_->setFigure(
        row, 3,
        {QString("%1 ± %2").arg(formatValue(exit.good, 3), formatValue(exit.half_width, 2)), formatValue(exit.good, 3)},
        tip);
    figures_->setFigure(row, 4, {zText(exit.z)}, tip);
  }
  figures_->setColumnWidth(0, figure_width + 2 * kSpace8);
  QStringList settings, names;
  for (const GateSetting& setting : report_.settings) {
    settings << QString::fromStdString(setting_text(setting));
    names << QString::fromStdString(setting.name);
  }
  const QString verb = settings.size() == 1 ? " differs" : " differ";
  const QString head = settings.isEmpty() ? QString() : countedText(settings.size(), "setting") + verb;
  settings_->setTexts({head + (settings.isEmpty() ? "" : ": ") + settings.join(QStringLiteral("; ")),
                       head + ": " + names.join(QStringLiteral(", ")), head});
  settings_->setToolTip(settings.join('\n'));
  const Sign sign = report_.verdict == GateVerdict::regressed ? Sign::bad : Sign::good;
  emit judged(report_.verdict == GateVerdict::too_early ? QString() : word(), sign, placeText());
  update();
}

QString RegressionPanel::word() const {
  const QString verdict = QString::fromLatin1(gate_verdict_name(report_.verdict));
  return verdict.left(1).toUpper() + verdict.mid(1);
}

QString RegressionPanel::placeText() const {
  if (report_.exits.empty()) return countedText(static_cast<int>(report_.series.size()), "figure") + " in the band";
  const bool is_better = report_.verdict == GateVerdict::better;
  const auto decides = [&](const GateExit& exit) { return exit.is_worse || is_better; };
  const auto found = std::ranges::find_if(report_.exits, decides);
  const GateExit& exit = found == report_.exits.end() ? report_.exits.front() : *found;
  return QString("since step %1: %2").arg(formatCount(exit.first_step()), figureName(exit));
}

QString RegressionPanel::figureName(const GateExit& exit) const {
  return QString::fromStdString(figure_text(report_.series[exit.series].figure));
}

QString RegressionPanel::status() const {
  if (!is_judged_ || selection_->histories().size() < 2 || report_.verdict == GateVerdict::too_early) return {};
  return QString("%1 against the other runs, %2, %3")
      .arg(runLetter(*selection_, selection_->run()), selection_->rangeText(report_.steps),
           countedText(static_cast<int>(report_.series.size()), "figure"));
}

// "Regressed: first outside the band ...".
Panel::Answer RegressionPanel::answer() const {
  if (selection_->histories().size() < 2) return {{}, {nothingToCompareNotice()}};
  if (!is_judged_) return {};
  const QString sentence = printedText(gate_sentence(report_));
  return {QString("Is %1 as good as the others?").arg(runLetter(*selection_, selection_->run())),
          {word() + QStringLiteral(": ") + sentence, word() + QLatin1Char(' ') + placeText(), word()},
          report_.verdict == GateVerdict::regressed};
}

// A row for each judged figure.
ValueTable RegressionPanel::table() const {
  const std::vector<HistoryPtr> good = otherRuns();
  GateReport report = report_;
  if (!is_judged_ && !good.empty()) report = judge_gate(selection_->histories()[selection_->run()], good);
  ValueTable table({{"figure"},
                    {"first step outside"},
                    {"last step outside"},
                    {"value"},
                    {"other runs"},
                    {"half width of the noise band"},
                    {"z"}});
  for (std::size_t i = 0; i < report.series.size(); ++i) {
    const GateSeries& series = report.series[i];
    const auto exit = std::ranges::find(report.exits, i, &GateExit::series);
    const bool is_outside = exit != report.exits.end();
    table.add(figure_text(series.figure), is_outside ? TableValue(exit->first_step()) : TableValue(),
              is_outside ? TableValue(exit->last_step()) : TableValue(), table_value(series.value.back()),
              table_value(series.good.back()), table_value(series.half_width.back()), table_value(series.z.back()));
  }
  return table;
}

}  // namespace moescope
