#include "widgets/microscaling/operand_costs_panel.h"

#include <QAbstractTableModel>
#include <QHeaderView>
#include <algorithm>
#include <cmath>

#include "core/telemetry/frame/operand_costs.h"
#include "widgets/panel/metric_text.h"
#include "widgets/panel/tensor_text.h"
#include "widgets/plots/type_scale.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {

namespace {

// "3 routed w1 dY wgrad".
QString briefName(const OperandPlace& place) {
  const QString layer = place.layer < 0 ? QString() : QString::number(place.layer) + QLatin1Char(' ');
  return layer + gemmClassBrief(place.gemm_class()) + QLatin1Char(' ') + tensorName(place);
}

}  // namespace

class OperandCostsModel : public QAbstractTableModel {
 public:
  enum Column { kOperand, kShare, kSqnr, kFlushed, kClipped, kFormat, kColumns };
  struct Row {
    OperandPlace place;
    QString format;
    float sqnr_db, flushed, clipped, share;
  };
  using QAbstractTableModel::QAbstractTableModel;

  // Costliest first; then by the column that the person chose.
  void setRows(std::vector<Row> rows) {
    beginResetModel();
    rows_ = std::move(rows);
    arrange();
    endResetModel();
  }
  const std::vector<Row>& rows() const { return rows_; }
  QString onlyFormat() const {  // empty: there are several
    const bool one =
        !rows_.empty() && std::ranges::all_of(rows_, [this](const Row& row) { return row.format == rows_[0].format; });
    return one ? rows_[0].format : QString();
  }
  int rowOf(const OperandPlace& place) const {
    const auto found = std::ranges::find(rows_, place, &Row::place);
    return found == rows_.end() ? -1 : static_cast<int>(found - rows_.begin());
  }

  int rowCount(const QModelIndex& parent = {}) const override { return parent.isValid() ? 0 : std::ssize(rows_); }
  int columnCount(const QModelIndex& parent = {}) const override { return parent.isValid() ? 0 : kColumns; }

  QVariant data(const QModelIndex& index, int role) const override {
    const Row& row = rows_[static_cast<std::size_t>(index.row())];
    if (role == Qt::TextAlignmentRole && index.column() != kOperand && index.column() != kFormat)
      return QVariant(Qt::AlignRight | Qt::AlignVCenter);
    if (role == Qt::ToolTipRole) return placeName(row.place);
    if (role != Qt::DisplayRole) return {};
    switch (index.column()) {
      case kOperand:
        return briefName(row.place);
      case kSqnr:
        return std::isinf(row.sqnr_db) ? tr("exact") : formatValue(row.sqnr_db, 3);
      case kFlushed:
        return formatPercent(row.flushed);
      case kClipped:
        return formatPercent(row.clipped);
      case kShare:
        return formatPercent(row.share);
      default:
        return row.format;
    }
  }

  QVariant headerData(int section, Qt::Orientation orientation, int role) const override {
    if (orientation == Qt::Vertical) return role == Qt::DisplayRole ? QVariant(section + 1) : QVariant();
    static const char* const kNames[kColumns] = {"operand", "of the error", "SQNR, dB", "flushed", "clipped", "format"};
    static const char* const kTips[kColumns] = {
        "Layer, class, weight and factor of the GEMM",
        ("Share of all operands' rounding error, modelled: their relative errors add up as if independent, all GEMMs "
         "alike"),
        "Signal to quantization noise, measured",
        "Share of non-zero values that became zero, measured",
        "Share of values beyond the format's maximum, measured",
        "Element format and how its scale is chosen"};
    if (role == Qt::DisplayRole) return tr(kNames[section]);
    return role == Qt::ToolTipRole ? tr(kTips[section]) : QVariant();
  }

  void sort(int column, Qt::SortOrder order) override {
    column_ = column;
    order_ = order;
    beginResetModel();
    arrange();
    endResetModel();
  }

 private:
  double keyOf(const Row& row) const {
    switch (column_) {
      case kSqnr:
        return row.sqnr_db;
      case kFlushed:
        return row.flushed;
      case kClipped:
        return row.clipped;
      default:
        return row.share;
    }
  }
  // Figures that are missing stay last.
  void arrange() {
    std::ranges::stable_sort(rows_, [this](const Row& a, const Row& b) {
      const bool up = order_ == Qt::AscendingOrder;
      if (column_ == kOperand || column_ == kFormat) {
        const QString of_a = column_ == kFormat ? a.format : placeName(a.place);
        const QString of_b = column_ == kFormat ? b.format : placeName(b.place);
        return up ? of_a < of_b : of_b < of_a;
      }
      const double of_a = keyOf(a), of_b = keyOf(b);
      if (std::isnan(of_a) || std::isnan(of_b)) return !std::isnan(of_a) && std::isnan(of_b);
      return up ? of_a < of_b : of_a > of_b;
    });
  }

  std::vector<Row> rows_;
  int column_ = kShare;
  Qt::SortOrder order_ = Qt::DescendingOrder;
};

OperandCostsPanel::OperandCostsPanel(Selection* selection, Of of, QWidget* parent)
    : Panel(selection, tr("Operand costs"), Provenance::measured_here, parent), of_(of) {
  model_ = new OperandCostsModel(this);
  view_ = new QTableView(this);
  view_->setModel(model_);
  view_->setSortingEnabled(true);
  view_->sortByColumn(OperandCostsModel::kShare, Qt::DescendingOrder);
  view_->setSelectionBehavior(QAbstractItemView::SelectRows);
  view_->setSelectionMode(QAbstractItemView::SingleSelection);
  view_->setAlternatingRowColors(true);
  view_->setAccessibleName(tr("Operands by what quantization costs them"));
  view_->horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
  view_->setHorizontalScrollMode(QAbstractItemView::ScrollPerPixel);  // rather than names of formats cut short
  followFont(view_, [this] {
    view_->verticalHeader()->setDefaultSectionSize(view_->fontMetrics().height() + 4);
    view_->horizontalHeader()->setMinimumSectionSize(view_->fontMetrics().averageCharWidth() * 7);
  });
  connect(view_, &QTableView::clicked, this, &OperandCostsPanel::choose);
  connect(view_, &QTableView::activated, this, &OperandCostsPanel::open);
  for (auto signal : {&Selection::dataChanged, &Selection::timeChanged, &Selection::focusChanged})
    connect(selection_, signal, this, &OperandCostsPanel::fill);
  conclusion_ = new ConclusionLabel(this);
  addBody(conclusion_, 0);
  addBody(view_);
}

std::shared_ptr<const TelemetryFrame> OperandCostsPanel::frameOf(int run) const {
  return run < 0 ? nullptr : selection_->histories()[static_cast<std::size_t>(run)]->quant_frame_at(selection_->step());
}

int OperandCostsPanel::shownRun() const {
  if (!selection_->history()) return -1;
  if (of_ == Of::compared_run && selection_->run() == 0) {
    int coarsest = -1;
    float lowest = 0;
    for (int run = 1; run < static_cast<int>(selection_->histories().size()); ++run) {
      const History& history = *selection_->histories()[static_cast<std::size_t>(run)];
      const float sqnr = history.value_at(Metric::quant_sqnr_db, kWholeRun, selection_->step());
      if (!frameOf(run) || (coarsest > 0 && !(sqnr < lowest))) continue;
      coarsest = run;
      lowest = sqnr;
    }
    if (coarsest > 0) return coarsest;
  }
  const bool b_instead = selection_->run() == 0 && selection_->histories().size() > 1 && !frameOf(0) && frameOf(1);
  return b_instead ? 1 : selection_->run();
}

void OperandCostsPanel::showEvent(QShowEvent* event) {
  Panel::showEvent(event);
  fill();
}

void OperandCostsPanel::fill() {
  if (!isVisible()) return;
  const auto frame = frameOf(shownRun());
  if (frame != frame_) {
    frame_ = frame;
    std::vector<OperandCostsModel::Row> rows;
    if (frame_)
      for (const OperandCost& cost : operand_costs(*frame_))
        rows.push_back({*cost.operand, QString::fromStdString(cost.operand->format), cost.operand->sqnr_db,
                        cost.operand->underflow, cost.operand->clipped, cost.share});
    model_->setRows(std::move(rows));
    view_->setColumnHidden(OperandCostsModel::kFormat, !model_->onlyFormat().isEmpty());  // then the header says it
  }
  conclusion_->say(costliest());
  const int current = model_->rowOf(selection_->tensor());
  if (current >= 0) view_->selectRow(current);
}

QString OperandCostsPanel::costliest() const {
  if (!selection_->history()) return noRunNotice().toHtmlEscaped();
  const auto& rows = model_->rows();
  const auto worst = std::ranges::max_element(
      rows, {}, [](const OperandCostsModel::Row& row) { return std::isnan(row.share) ? -1.0f : row.share; });
  if (worst == rows.end())
    return tr("Nothing is quantized in %1").arg(runLabel(*selection_, shownRun())).toHtmlEscaped();
  if (!(worst->share > 0)) return tr("Quantization loses nothing here").toHtmlEscaped();
  return tr("<b>%1</b> costs most in %2: SQNR %3 dB, %4 flushed to zero, %5 clipped; %6 of the rounding error "
            "of all %7 operands")
      .arg(placeName(worst->place).toHtmlEscaped(), runLabel(*selection_, shownRun()).toHtmlEscaped(),
           formatValue(worst->sqnr_db, 3), formatPercent(worst->flushed), formatPercent(worst->clipped),
           formatPercent(worst->share))
      .arg(rows.size());
}

void OperandCostsPanel::choose(const QModelIndex& index) {
  selection_->setTensor(model_->rows()[static_cast<std::size_t>(index.row())].place);
}

// Tensors are captured from the active run.
void OperandCostsPanel::open(const QModelIndex& index) {
  const OperandPlace place = model_->rows()[static_cast<std::size_t>(index.row())].place;
  const std::int64_t step = frame_->step;
  selection_->setRun(shownRun());
  selection_->setTensor(place);
  emit operandOpened(place, step);
}

std::optional<Provenance> OperandCostsPanel::kind() const {
  return frame_ ? Panel::kind() : std::nullopt;
}

QString OperandCostsPanel::status() const {
  if (!frame_) return {};
  // One of the columns is no measurement: said first, where it is read in a narrow panel, too.
  QStringList parts{tr("\"of the error\" modelled"), timeStatus(frame_->step, true), runLabel(*selection_, shownRun())};
  if (const QString format = model_->onlyFormat(); !format.isEmpty()) parts << tr("all in %1").arg(format);
  return parts.join(QStringLiteral(", "));
}

QString OperandCostsPanel::csv() const {
  QString text = QStringLiteral(
      "step,layer,class,weight,operand,direction,format,SQNR [dB],underflow [%],clipped [%],share of the rounding "
      "error, modelled [%]\n");
  const auto frame = frameOf(shownRun());
  if (!frame) return text;
  const auto percent = [](float share) { return std::isnan(share) ? QString() : QString::number(100 * share, 'g', 6); };
  for (const OperandCost& cost : operand_costs(*frame)) {
    const QuantFrame& of = *cost.operand;
    text += QStringLiteral("%1,%2,%3,%4,%5,%6,")
                .arg(frame->step)
                .arg(of.layer)
                .arg(QLatin1String(gemm_class_name(of.gemm_class())), QLatin1String(gemm_name(of.gemm)),
                     QLatin1String(operand_name(of.operand)), QLatin1String(direction_name(of.direction))) +
            QStringLiteral("%1,%2,%3,%4,%5\n")
                .arg(QString::fromStdString(of.format), QString::number(of.sqnr_db, 'g', 7), percent(of.underflow),
                     percent(of.clipped), percent(cost.share));
  }
  return text;
}

QString OperandCostsPanel::explain() const {
  return tr("<p><b>Which operand hurts.</b> Every operand that a run quantizes, the active one or, beside run A, the "
            "one with the lowest SQNR, of all layers and GEMMs, costliest first; a click on a column's title sorts by "
            "it. Forward y = x W<sup>T</sup>, dgrad dx = dY W, wgrad dW = dY<sup>T</sup> x: x and W lose in the "
            "forward pass, dY in what goes back.</p><p><b>Of the error</b> is modelled: to first order a product's "
            "relative error is the sum of its operands', and errors of roundings are nearly independent, so that their "
            "squares add up; this is an operand's part of the sum over all. GEMMs count alike, whatever part of the "
            "gradient passes through them: what the gradient really lost is in Gradient error, measured.</p><p>A click "
            "chooses the tensor for the other panels, Enter or a double click captures it and opens it down to the "
            "bits of a block.</p>") +
         metricCards({"sqnr_db", "underflow", "clipped"});
}

}  // namespace moescope
