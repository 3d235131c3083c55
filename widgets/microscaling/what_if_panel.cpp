#include "widgets/microscaling/what_if_panel.h"

#include <cmath>

#include "widgets/panel/csv.h"
#include "widgets/panel/format_text.h"
#include "widgets/panel/tensor_text.h"

namespace moescope {
namespace {

constexpr std::size_t kMaxTriedElements = std::size_t{4}
                                          << 20;  // limit on elements, about 0.3 s; larger tensors are sampled

}  // namespace

WhatIfPanel::WhatIfPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "What if", Provenance::measured_here, parent) {
  table_ = new WhatIfTable(this);
  metric_ = makeChoice({"SQNR", "flushed to zero", "clipped"}, "Figure",
                       "Figure in the cells; read SQNR together with what is flushed to zero");
  connect(metric_, &QComboBox::currentIndexChanged, this,
          [this](int i) { table_->setMetric(static_cast<WhatIfMetric>(i)); });
  columns_ = makeChoice({"by block size", "by scale rule"}, "Columns", "Setting that differs between the columns");
  connect(columns_, &QComboBox::currentIndexChanged, this,
          [this](int i) { table_->setColumns(static_cast<WhatIfColumns>(i)); });
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
  table_->setRows({});
  table_->setSchemes({});
  table_->setNotice(source.valid() ? QString("Computing") : noTensorNotice());
  if (!source.valid()) return cancel();
  cancel_->setEnabled(true);
  worker_.start([this, request, source, slice](std::stop_token stop) {
    const TensorSource::Sample sample = source.sample(slice, kMaxTriedElements);
    std::vector<WhatIfRow> rows =
        what_if({sample.values.data(), sample.rows, sample.cols, sample.cols}, stop, sample.row_groups);
    std::vector<WhatIfRow> schemes =
        what_if_schemes({sample.values.data(), sample.rows, sample.cols, sample.cols}, stop, sample.row_groups);
    if (rows.empty() || schemes.empty()) return;
    const double all = static_cast<double>(source.rows()) * static_cast<double>(source.cols());
    const QString note = sample.whole ? QString("all %1 values").arg(formatCount(all))
                                      : QString(source.grouped() ? "sampled: %1 of %2 values, whole experts"
                                                                 : "sampled: %1 of %2 values, in tiles of 512 x 512")
                                            .arg(formatCount(static_cast<double>(sample.values.size())))
                                            .arg(formatCount(all));
    QMetaObject::invokeMethod(
        this,
        [this, request, rows = std::move(rows), schemes = std::move(schemes), note]() mutable {
          deliver(request, std::move(rows), std::move(schemes), note);
        },
        Qt::QueuedConnection);
  });
}

void WhatIfPanel::deliver(int request, std::vector<WhatIfRow> rows, std::vector<WhatIfRow> schemes,
                          const QString& note) {
  if (request != request_) return;
  cancel_->setEnabled(false);
  note_ = note;
  table_->setNotice({});
  table_->setRows(std::move(rows));
  table_->setSchemes(std::move(schemes));
  update();
}

void WhatIfPanel::cancel() {
  ++request_;
  worker_.cancel();
  cancel_->setEnabled(false);
  if (table_->rows().empty() && table_->notice() == QString("Computing")) table_->setNotice("Cancelled");
  table_->markDirty();
}

void WhatIfPanel::setChoice(const OperandFormat& format, BlockAxis axis) {
  table_->setChoice(format, axis);
}

// The kind of the open tensor, independent of the open run.
std::optional<Provenance> WhatIfPanel::kind() const {
  return !table_->rows().empty() ? Provenance::measured_here : std::optional<Provenance>();
}

QString WhatIfPanel::status() const {
  if (table_->rows().empty()) return {};
  return (metric_->currentIndex() == 0 ? QString("SQNR in dB") : metric_->currentText()) + QStringLiteral(", ") + note_;
}

// The answer compares the selected element format with the best and the worst one, and names the other axis if that is
// better.
Panel::Answer WhatIfPanel::answer() const {
  const QuantSums* chosen = table_->chosenSums();
  if (!chosen || !std::isfinite(chosen->sqnr_db())) return {};
  constexpr double kWorthTelling = 0.05, kOtherAxis = 1;  // dB
  const auto difference = [&](const QuantSums* sums) { return sums ? sums->sqnr_db() - chosen->sqnr_db() : 0.0; };
  const auto decibels = [](double db) { return QString::number(std::fabs(db), 'f', 1); };
  QString best, worst;
  double more = kWorthTelling, less = kWorthTelling;
  for (int i = 0; i < kNumElementFormats; ++i) {
    const auto element = static_cast<ElementFormat>(i);
    const double gain = difference(table_->sumsOf(element, table_->axis()));
    if (std::isfinite(gain) && gain > more) more = gain, best = elementFormatLabel(element);
    if (std::isfinite(gain) && -gain > less) less = -gain, worst = elementFormatLabel(element);
  }
  const BlockAxis other = table_->axis() == BlockAxis::row ? BlockAxis::column : BlockAxis::row;
  const bool is_mx = table_->choice().scheme == QuantScheme::mx;
  const double turned = is_mx ? difference(table_->sumsOf(table_->choice().element, other)) : 0.0;
  const QString gains = best.isEmpty() ? QString("No other format keeps more")
                                       : QString("%1 would keep %2 dB more").arg(best, decibels(more));
  const QString loses = worst.isEmpty() ? QString() : QString(", %1 would lose %2").arg(worst, decibels(less));
  Answer answer;
  if (std::isfinite(turned) && turned >= kOtherAxis)
    answer.answers << gains + loses +
                          QString("; blocks %1 would keep %2 more").arg(blockAxisLabel(other), decibels(turned));
  answer.answers << gains + loses << gains;
  if (!best.isEmpty()) answer.answers << QString("%1: +%2 dB").arg(best, decibels(more));
  return answer;
}

QString WhatIfPanel::csv() const {
  QString text =
      QStringLiteral("axis,block,format,rule,sqnr_db,underflow_share,clipped_share,clipped_blocks_share,mean_crest\n");
  const auto line = [](const WhatIfRow& row, const QString& block, const QString& format, const QString& rule) {
    return csvRow(row.axis == BlockAxis::row ? QStringLiteral("row") : QStringLiteral("column"), block, format, rule,
                  digits(row.sums.sqnr_db(), 8), digits(row.sums.underflow_share(), 8),
                  digits(row.sums.clipped_share(), 8), digits(row.sums.clipped_blocks_share(), 8),
                  digits(row.sums.mean_crest(), 8));
  };
  for (const WhatIfRow& row : table_->rows())
    text += line(row, QString::number(row.format.block), QString::fromLatin1(traits(row.format.element).name),
                 QString::fromLatin1(scale_rule_name(row.format.rule)));
  for (const WhatIfRow& row : table_->schemes())
    text += line(row, {}, operandFormatLabel(row.format).remove(QLatin1Char(',')), {});
  return text;
}

}  // namespace moescope
