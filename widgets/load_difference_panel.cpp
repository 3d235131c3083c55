#include "widgets/load_difference_panel.h"

#include <QPainter>
#include <algorithm>
#include <cmath>

#include "widgets/metric_text.h"

namespace moescope {
namespace {

constexpr double kLimit = 1;  // a whole fair share more or less: ends of the colour scale

std::uint8_t differenceCode(float difference) {
  if (!std::isfinite(difference)) return kNoDataCode;
  const double position = std::clamp((difference / kLimit + 1) / 2, 0.0, 1.0);
  return static_cast<std::uint8_t>(2 + std::lround(position * 253));
}

LegendScale differenceLegend(bool dark) {
  return {.lut = utilisationLut(dark),
          .ticks = {{0.0, QStringLiteral("-1")},
                    {0.25, QStringLiteral("-0.5")},
                    {0.5, QStringLiteral("0")},
                    {0.75, QStringLiteral("+0.5")},
                    {1.0, QStringLiteral("+1")}},
          .caption = QStringLiteral("x fair"),
          .beyond = true,
          .first_code = 2};
}

QString signedText(float value) {
  return (value > 0 ? QStringLiteral("+") : QString()) + QString::number(value, 'f', 2);
}

}  // namespace

LoadDifferencePanel::LoadDifferencePanel(Selection* selection, QWidget* parent)
    : Panel(selection, tr("Load difference"), Provenance::measured, parent) {
  view_ = new MatrixPlot(this);
  view_->refill = [this] { refill(); };
  view_->describe = [this](int row, int column) { return describe(row, column); };
  view_->decorate = [this](QPainter& painter) { paintNumbers(painter); };
  view_->setWeights(utilisationWeights());
  for (auto signal : {&Selection::dataChanged, &Selection::timeChanged})
    connect(selection_, signal, view_, &PlotFrame::markDirty);
  connect(selection_, &Selection::focusChanged, view_, [this] {
    markCurrent();
    view_->markDirty();
  });
  connect(view_, &MatrixPlot::cellChosen, this, [this](int row, int column) {
    selection_->setLayer(rows_[static_cast<std::size_t>(row)].layer);
    selection_->setExpert(column);
  });
  addBody(view_);
}

std::vector<LoadDifferencePanel::Row> LoadDifferencePanel::rows(std::int64_t* step) const {
  std::vector<Row> rows;
  const int run = comparedRun(*selection_);
  if (run < 0) return rows;
  const auto b = selection_->histories()[static_cast<std::size_t>(run)]->frame_at(selection_->step());
  if (!b) return rows;
  *step = b->step;
  const auto a = selection_->histories().front()->frame_at(b->step);
  if (!a || a->step != b->step) return rows;
  for (const RouterFrame& router : b->routers) {
    const auto other = std::ranges::find(a->routers, router.layer, &RouterFrame::layer);
    if (other == a->routers.end()) continue;
    if (std::vector<float> difference = load_difference(*other, router); !difference.empty())
      rows.push_back({router.layer, std::move(difference)});
  }
  return rows;
}

QString LoadDifferencePanel::status() const {
  const int run = comparedRun(*selection_);
  if (run < 0) return {};
  std::int64_t step = 0;
  const auto frame = selection_->histories()[static_cast<std::size_t>(run)]->frame_at(selection_->step());
  if (!frame) return {};
  step = frame->step;
  return tr("%1, %2 minus A").arg(timeStatus(step, true), runLabel(*selection_, run));
}

void LoadDifferencePanel::refill() {
  if (!selection_->history()) return view_->setNotice(noRunNotice());
  if (comparedRun(*selection_) < 0) return view_->setNotice(nothingToCompareNotice());
  std::int64_t step = 0;
  rows_ = rows(&step);
  if (rows_.empty())
    return view_->setNotice(tr("No step with the loads of both runs, or they have different numbers of experts"));
  view_->setNotice({});
  const int columns = static_cast<int>(
      std::ranges::max_element(rows_, {}, [](const Row& row) { return row.difference.size(); })->difference.size());
  std::vector<std::uint8_t> codes;
  std::vector<Tick> row_ticks;
  for (const Row& row : rows_) {
    row_ticks.push_back({static_cast<double>(row_ticks.size()), QString::number(row.layer)});
    for (int e = 0; e < columns; ++e)
      codes.push_back(e < std::ssize(row.difference) ? differenceCode(row.difference[static_cast<std::size_t>(e)])
                                                     : kNoDataCode);
  }
  view_->setCells(static_cast<int>(rows_.size()), columns, std::move(codes));
  view_->setLegend(differenceLegend(isDark(palette())));
  view_->setRowAxis(std::move(row_ticks), tr("layer"));
  view_->setColumnAxis(integerTicks(0, columns - 1, std::max(2, view_->width() / 60)), tr("expert"));
  markCurrent();
}

void LoadDifferencePanel::markCurrent() {
  const auto row = std::ranges::find(rows_, selection_->layer(), &Row::layer);
  view_->setCurrent(row == rows_.end() ? -1 : static_cast<int>(row - rows_.begin()), selection_->expert());
}

void LoadDifferencePanel::paintNumbers(QPainter& painter) const {
  const QFontMetrics metrics(painter.font());
  const QRectF cell = view_->cellRect(0, 0);
  if (cell.width() < metrics.horizontalAdvance(QStringLiteral("+0.00")) + 4 || cell.height() < metrics.height() + 2)
    return;
  for (int row = 0; row < view_->rows(); ++row)
    for (int e = 0; e < std::ssize(rows_[static_cast<std::size_t>(row)].difference); ++e) {
      painter.setPen(textOn(view_->cellColor(row, e)));
      painter.drawText(view_->cellRect(row, e), Qt::AlignCenter,
                       signedText(rows_[static_cast<std::size_t>(row)].difference[static_cast<std::size_t>(e)]));
    }
}

QStringList LoadDifferencePanel::describe(int row, int column) const {
  if (row >= std::ssize(rows_) || column >= std::ssize(rows_[static_cast<std::size_t>(row)].difference)) return {};
  const Row& at = rows_[static_cast<std::size_t>(row)];
  return {tr("layer %1, expert %2").arg(at.layer).arg(column),
          tr("utilisation %1 against run A's").arg(signedText(at.difference[static_cast<std::size_t>(column)]))};
}

QString LoadDifferencePanel::csv() const {
  QString text = QStringLiteral("step,layer,expert,utilisation minus run A's (1 = a fair share)\n");
  std::int64_t step = 0;
  for (const Row& row : rows(&step))
    for (std::size_t e = 0; e < row.difference.size(); ++e)
      text += QStringLiteral("%1,%2,%3,%4\n").arg(step).arg(row.layer).arg(e).arg(row.difference[e], 0, 'g', 9);
  return text;
}

QString LoadDifferencePanel::explain() const {
  return tr("<p><b>Utilisation of each expert in one run minus that in run A</b>, same step and batch. The run is the "
            "active one; while A is active, B. 0: both send it as many tokens. +1: a whole fair share more than in "
            "A.</p><p><b>Reading it.</b> Faint and changing from step to step: noise. A cell that stays coloured: the "
            "runs have come to use that expert differently; experts of runs with other first weights have nothing to "
            "do "
            "with each other.</p>") +
         metricCards({"utilisation"});
}

}  // namespace moescope
