#include "widgets/compare/runs_panel.h"

#include <QApplication>
#include <QClipboard>
#include <QHeaderView>
#include <QKeyEvent>
#include <QRegularExpression>
#include <QTimer>
#include <algorithm>
#include <cmath>
#include <optional>

#include "core/telemetry/comparison/operand_sqnr.h"
#include "core/telemetry/frame/kernel_names.h"
#include "widgets/look/type_scale.h"
#include "widgets/panel/explain_card.h"
#include "widgets/panel/metric_text.h"
#include "widgets/plots/color_scale.h"

namespace moescope {
namespace {

constexpr int kWrapped = Qt::AlignLeft | Qt::AlignVCenter | Qt::TextWordWrap;

// A name that may go on in the next line after - + _ and dots.
QString breakable(QString name) {
  static const QRegularExpression kBreaks(QStringLiteral("([-+_.])(?=[^0-9])"));
  return name.replace(kBreaks, QStringLiteral("\\1\u200b"));
}

// Settings of [precision] are most of what runs are compared in.
QString settingLabel(const QString& key) {
  const QString group = QStringLiteral("precision.");
  return key.startsWith(group) ? key.mid(group.size()) : key;
}

}  // namespace

RunsPanel::RunsPanel(Selection* selection, const ComparedRuns* runs, QWidget* parent)
    : Panel(selection, tr("Runs"), Provenance::measured_here, parent), runs_(runs) {
  table_ = new QTableWidget(this);
  table_->setEditTriggers(QAbstractItemView::NoEditTriggers);
  table_->setAlternatingRowColors(true);
  table_->setAccessibleName(tr("Figures and settings of the runs"));
  followFont(table_, [this] { table_->verticalHeader()->setDefaultSectionSize(table_->fontMetrics().height() + 6); });
  table_->horizontalHeader()->setSectionResizeMode(QHeaderView::Stretch);
  table_->horizontalHeader()->setDefaultAlignment(Qt::Alignment(kWrapped));
  table_->horizontalHeader()->viewport()->installEventFilter(this);
  table_->installEventFilter(this);
  connect(table_->horizontalHeader(), &QHeaderView::sectionClicked, selection_, &Selection::setRun);
  connect(selection_, &Selection::dataChanged, this, &RunsPanel::fill);
  connect(runs_, &ComparedRuns::changed, this, &RunsPanel::fill);
  auto* copy_button = new QToolButton(this);
  copy_button->setText(tr("Copy"));
  copy_button->setToolTip(tr("Copies the table, tab-separated (Ctrl+C)"));
  connect(copy_button, &QToolButton::clicked, this, &RunsPanel::copy);
  addControl(copy_button);
  addBody(table_);
}

std::vector<RunsPanel::Line> RunsPanel::lines(bool for_screen) const {
  const auto& histories = selection_->histories();
  const StepRange window = last_common_steps(histories, kWindow);
  std::vector<Line> lines;
  const auto add = [&](const QString& name, std::optional<Metric> metric, auto&& text) {
    Line line{name, {}, {}, {}};
    if (metric) line.tip = cardInPrint(moescope::metricCard(metric_info(*metric)));
    for (const auto& history : histories) line.cells.push_back(text(run_figures(*history, window)));
    lines.push_back(std::move(line));
  };
  const auto number = [for_screen](float value, int digits, bool share = false) {
    if (is_missing(value)) return for_screen ? QStringLiteral("-") : QString();
    if (!for_screen) return QString::number(value, 'g', 9);
    return share ? formatPercent(value) : formatValue(value, digits);
  };
  const QString last = tr("mean of %1 steps").arg(std::max<std::int64_t>(0, window.size()));
  add(tr("Steps compared"), std::nullopt, [for_screen](const RunFigures& f) {
    return for_screen ? formatCount(static_cast<double>(f.steps)) : QString::number(f.steps);
  });
  const QString unit = for_screen ? QString() : tr(" [nats/token]");
  add(tr("Loss, last step") + unit, Metric::ce_loss, [&](const RunFigures& f) { return number(f.final_loss, 4); });
  add((for_screen ? tr("Loss, mean") : tr("Loss, %1").arg(last)) + unit, Metric::ce_loss,
      [&](const RunFigures& f) { return number(f.mean_loss, 4); });
  const float of_a = histories.empty() ? kNoValue : run_figures(*histories.front(), window).mean_loss;
  add(tr("  minus run A's") + unit, Metric::ce_loss, [&](const RunFigures& f) {
    const float gap = f.mean_loss - of_a;
    if (!std::isfinite(gap) || !for_screen) return number(std::isfinite(gap) ? gap : kNoValue, 3);
    return (gap > 0 ? QStringLiteral("+") : QString()) + withMinus(QString::number(gap, 'f', 4));
  });
  add(tr("MaxVio, batch"), Metric::max_vio, [&](const RunFigures& f) { return number(f.max_vio, 3); });
  const std::vector<OperandSqnr> sqnr = operand_sqnr(histories, window.last);
  const auto add_sqnr = [&](const QString& name, float OperandSqnr::*figure) {
    Line line{name, {}, QString::fromUtf8(kSqnrNote), {}};
    for (const OperandSqnr& of : sqnr) {
      line.cells.push_back(number(of.*figure, 3));
      line.cell_tips.push_back(of.operands > 0 ? QString::fromStdString(to_text(of)) : tr("Nothing is quantized"));
    }
    lines.push_back(std::move(line));
  };
  add_sqnr(for_screen ? tr("SQNR, worst [dB]") : tr("SQNR, worst of the operands that differ [dB]"),
           &OperandSqnr::worst_db);
  add_sqnr(for_screen ? tr("SQNR, mean [dB]") : tr("SQNR, mean of the operands that differ [dB]"),
           &OperandSqnr::mean_db);
  add(for_screen ? tr("Flips by rounding") : tr("Routing flips against FP32 on the same weights [share]"),
      Metric::rounding_flip_rate, [&](const RunFigures& f) { return number(f.rounding_flip_rate, 3, true); });
  add(for_screen ? tr("Flips against A") : tr("Routing flips against run A [share]"), Metric::flip_rate,
      [&](const RunFigures& f) { return number(f.flip_rate, 3, true); });
  add(tr("Gradient cosine"), Metric::gradient_cosine,
      [&](const RunFigures& f) { return number(f.gradient_cosine, 5); });
  add(for_screen ? tr("Tokens/s") : tr("Tokens/s of this run"), Metric::tokens_per_s, [&](const RunFigures& f) {
    return is_missing(f.tokens_per_s) || !for_screen ? number(f.tokens_per_s, 4)
                                                     : formatCount(std::round(f.tokens_per_s));
  });
  for (const auto& history : histories) {
    const std::string units = multiplied_by(history->info());
    lines.back().cell_tips.push_back(units.empty() ? lines.back().cells[lines.back().cell_tips.size()]
                                                   : tr("GEMMs: %1").arg(QString::fromStdString(units)));
  }
  // A line for each setting in which any run differs from A.
  std::vector<QString> keys;
  for (const ComparedRun& run : runs_->runs())
    for (const SettingDifference& setting : run.settings)
      if (std::ranges::find(keys, setting.key) == keys.end()) keys.push_back(setting.key);
  for (const QString& key : keys) {
    Line line{
        for_screen ? settingLabel(key) : key, std::vector<QString>(histories.size()), for_screen ? key : QString(), {}};
    QString in_a;
    for (std::size_t run = 1; run < std::min(histories.size(), runs_->runs().size()); ++run)
      for (const SettingDifference& setting : runs_->runs()[run].settings)
        if (setting.key == key) line.cells[run] = setting.of_this, in_a = setting.of_a;
    for (QString& cell : line.cells)
      if (cell.isEmpty()) cell = in_a;
    lines.push_back(std::move(line));
  }
  return lines;
}

void RunsPanel::showEvent(QShowEvent* event) {
  Panel::showEvent(event);
  fill();
}

// The heads have the runs' colours.
void RunsPanel::changeEvent(QEvent* event) {
  Panel::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) fill();
}

void RunsPanel::fill() {
  if (!isVisible()) return;
  const auto all = lines(true);
  const int runs = static_cast<int>(selection_->histories().size());
  table_->setRowCount(static_cast<int>(all.size()));
  table_->setColumnCount(runs);
  const bool dark = isDark(palette());
  for (int run = 0; run < runs; ++run) {
    auto* header = new QTableWidgetItem(breakable(runLabel(*selection_, run)));
    header->setForeground(seriesColor(runColor(*selection_, run), dark));
    header->setToolTip(tr("%1. Click to make it the active run").arg(runLabel(*selection_, run)));
    table_->setHorizontalHeaderItem(run, header);
  }
  for (int row = 0; row < std::ssize(all); ++row) {
    const Line& line = all[static_cast<std::size_t>(row)];
    auto* name = new QTableWidgetItem(line.name);
    name->setToolTip(line.tip);
    table_->setVerticalHeaderItem(row, name);
    for (int run = 0; run < runs; ++run) {
      QTableWidgetItem* cell = table_->item(row, run);
      if (!cell) table_->setItem(row, run, cell = new QTableWidgetItem);
      cell->setText(breakable(line.cells[static_cast<std::size_t>(run)]));
      cell->setToolTip((line.cell_tips.empty() ? line.cells : line.cell_tips)[static_cast<std::size_t>(run)]);
    }
  }
  fitHeights();
}

// Names are wrapped, not cut.
void RunsPanel::fitHeights() {
  QHeaderView* header = table_->horizontalHeader();
  int height = 0;
  for (int run = 0; run < table_->columnCount(); ++run) {
    const QRect room(0, 0, header->sectionSize(run) - 10, 1000);
    const QTableWidgetItem* name = table_->horizontalHeaderItem(run);
    if (name) height = std::max(height, header->fontMetrics().boundingRect(room, kWrapped, name->text()).height());
  }
  if (height > 0) header->setFixedHeight(height + 6);
  table_->resizeRowsToContents();
}

QString RunsPanel::status() const {
  const auto& histories = selection_->histories();
  const StepRange window = last_common_steps(histories, kWindow);
  const std::int64_t steps = window.empty() ? 0 : std::ssize(histories.front()->steps_in(window));
  return steps == 1 ? tr("the only step that all runs took") : tr("last %1 steps that all runs took").arg(steps);
}

bool RunsPanel::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::Resize && watched == table_->horizontalHeader()->viewport())
    QTimer::singleShot(0, this, &RunsPanel::fitHeights);
  if (event->type() == QEvent::KeyPress && static_cast<QKeyEvent*>(event)->matches(QKeySequence::Copy)) {
    copy();
    return true;
  }
  return Panel::eventFilter(watched, event);
}

void RunsPanel::copy() {
  QString text;
  for (int run = 0; run < static_cast<int>(selection_->histories().size()); ++run)
    text += QLatin1Char('\t') + runLabel(*selection_, run);
  for (const Line& line : lines(true)) {
    text += QLatin1Char('\n') + line.name.trimmed();
    for (const QString& cell : line.cells) text += QLatin1Char('\t') + cell;
  }
  QApplication::clipboard()->setText(text + QLatin1Char('\n'));
}

QString RunsPanel::csv() const {
  QString text = QStringLiteral("figure");
  for (int run = 0; run < static_cast<int>(selection_->histories().size()); ++run)
    text += QLatin1Char(',') + csvField(runLabel(*selection_, run));
  text += QLatin1Char('\n');
  for (const Line& line : lines(false)) {
    text += csvField(line.name.trimmed());
    for (const QString& cell : line.cells) text += QLatin1Char(',') + csvField(cell);
    text += QLatin1Char('\n');
  }
  return text;
}

QString RunsPanel::explain() const {
  return tr("<p><b>The runs in numbers.</b> Means (losses in nats/token) are over the last %1 steps that all runs "
            "took, on the same batches. Below the figures: every setting in which a run differs from run A. A click on "
            "a column's header makes that run active. A difference of loss means little without the noise twins of "
            "\"Loss gap\".</p><p><b>%2</b> A cell's tool tip names the worst operand.</p>")
             .arg(kWindow)
             .arg(QString::fromUtf8(kSqnrNote)) +
         metricCards({"ce_loss", "max_vio", "rounding_flip_rate", "flip_rate", "gradient_cosine", "tokens_per_s"});
}

}  // namespace moescope
