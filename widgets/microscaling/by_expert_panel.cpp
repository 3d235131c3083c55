#include "widgets/microscaling/by_expert_panel.h"

#include <QHeaderView>
#include <QPainter>
#include <cmath>

#include "widgets/look/row_delegate.h"
#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"
#include "widgets/microscaling/tables.h"
#include "widgets/panel/tensor_text.h"
#include "widgets/plots/color_scale.h"

namespace moescope {
namespace {

enum Column {
  kExpert,
  kRows,
  kSqnr,
  kUnderflow,
  kClipped,
  kClippedBlocks,
  kAmax,
  kCrest,
  kRelative,
  kCosine,
  kColumns
};
constexpr float kBarAlpha = 0.5F;
constexpr int kValueRole = Qt::UserRole;  // value of a cell; of the expert: its number, -1 for all experts

// Sorts by value; missing figures are last.
class NumberItem : public QTableWidgetItem {
 public:
  NumberItem(double value, const QString& text) : QTableWidgetItem(text) {
    setData(kValueRole, value);
    setTextAlignment(Qt::AlignRight | Qt::AlignVCenter);
    setFlags(Qt::ItemIsEnabled | Qt::ItemIsSelectable);
  }
  bool operator<(const QTableWidgetItem& other) const override {
    const double a = data(kValueRole).toDouble(), b = other.data(kValueRole).toDouble();
    return std::isnan(b) ? !std::isnan(a) : a < b;
  }
};

// Paints a bar behind the number, whose length is the number's share of the column's largest number.
class BarDelegate : public RowDelegate {
 public:
  using RowDelegate::RowDelegate;
  void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    double largest = 0;
    for (int row = 0; row < index.model()->rowCount(); ++row) {
      if (index.model()->index(row, kExpert).data(kValueRole).toInt() < 0) continue;  // skips the row of all experts
      const double value = index.model()->index(row, index.column()).data(kValueRole).toDouble();
      if (std::isfinite(value)) largest = std::max(largest, value);
    }
    const double value = index.data(kValueRole).toDouble();
    const bool all = index.model()->index(index.row(), kExpert).data(kValueRole).toInt() < 0;
    if (!all && largest > 0 && std::isfinite(value) && value > 0) {
      QColor color(colors(option.palette).plain_bar);
      color.setAlphaF(kBarAlpha);
      const int length = to_int(std::lround(option.rect.width() * std::min(1.0, value / largest)));
      painter->fillRect(QRect(option.rect.left(), option.rect.top() + 2, length, option.rect.height() - 4), color);
    }
    RowDelegate::paint(painter, option, index);
  }
};

}  // namespace

ByExpertPanel::ByExpertPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "By expert", Provenance::measured_here, parent) {
  table_ = new QTableWidget(0, kColumns, this);
  makePlain(table_, title());
  table_->setHorizontalHeaderLabels({"expert", "rows", "SQNR, dB", "flushed to zero", "clipped", "clipped blocks",
                                     "largest value", "crest", "relative L2", "cosine"});
  followFont(table_, [this] {
    table_->verticalHeader()->setDefaultSectionSize(table_->fontMetrics().height() + 5);
    fitColumns();
  });
  table_->setItemDelegate(new RowDelegate(table_));
  for (const int column : {kRows, kUnderflow, kClipped, kClippedBlocks, kAmax, kCrest, kRelative})
    table_->setItemDelegateForColumn(column, new BarDelegate(table_));
  notice_ = new QLabel(this);
  notice_->setWordWrap(true);
  notice_->setAlignment(Qt::AlignCenter);
  notice_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Expanding);
  showAnswers();
  addBody(notice_);
  addBody(table_);
  connect(table_, &QTableWidget::itemClicked, this, [this](const QTableWidgetItem* item) {
    emit expertChosen(table_->item(item->row(), kExpert)->data(kValueRole).toInt());
  });
  setCaptured(nullptr);
}

void ByExpertPanel::setCaptured(std::shared_ptr<const CapturedOperand> captured) {
  const int request = ++request_;
  captured_ = captured && !captured->expert_rows.empty() ? captured : nullptr;
  worst_ = {};
  table_->hide();
  notice_->show();
  QString notice = "Capture an operand of the routed experts: click its cell in Quantization error";
  if (captured) notice = "This operand does not belong to the routed experts";
  if (captured_) notice = "Quantizing every expert's rows";
  notice_->setText(notice);
  update();
  if (!captured_) return worker_.cancel();
  worker_.start([this, request, captured](std::stop_token) {
    std::vector<QuantSums> experts = expert_sums(*captured);
    const QuantSums all = quantizer_sums(*captured);
    QMetaObject::invokeMethod(
        this,
        [this, request, all, experts = std::move(experts)]() mutable { deliver(request, all, std::move(experts)); },
        Qt::QueuedConnection);
  });
}

void ByExpertPanel::fitColumns() {
  table_->resizeColumnsToContents();
  // Adds room for the arrow of the sort order.
  table_->setColumnWidth(kExpert, table_->fontMetrics().horizontalAdvance("expert") + 30);
}

void ByExpertPanel::deliver(int request, const QuantSums& all, std::vector<QuantSums> experts) {
  if (request != request_ || !captured_) return;
  table_->setSortingEnabled(false);
  table_->setRowCount(to_int(experts.size()) + 1);
  fillRow(0, "all", captured_->rows, all);
  worst_ = {-1, HUGE_VAL, all.sqnr_db()};
  for (std::size_t e = 0; e < experts.size(); ++e) {
    const int row = to_int(e) + 1;
    if (const double db = experts[e].sqnr_db(); experts[e].elements > 0 && db < worst_.db) {
      worst_.expert = to_int(e);
      worst_.db = db;
    }
    fillRow(row, QString::number(e), captured_->expert_rows[e + 1] - captured_->expert_rows[e], experts[e]);
  }
  fitColumns();
  table_->horizontalHeader()->setSortIndicator(kExpert, Qt::AscendingOrder);
  table_->setSortingEnabled(true);
  notice_->hide();
  table_->show();
  update();
}

void ByExpertPanel::fillRow(int row, const QString& name, std::size_t rows, const QuantSums& sums) {
  const double kNone = std::numeric_limits<double>::quiet_NaN();
  const auto put = [&](int column, double value, const QString& text) {
    table_->setItem(row, column, new NumberItem(value, text));
  };
  const auto number = [&](int column, double value, int digits) {
    put(column, value, std::isnan(value) ? QString() : formatValue(value, digits));
  };
  const auto share = [&](int column, double value) {
    put(column, value, std::isnan(value) ? QString() : formatPercent(value));
  };
  put(kExpert, row - 1, name);
  put(kRows, rows, formatCount(rows));
  const bool counted = sums.elements > 0, scaled = sums.blocks > 0;
  const double sqnr = counted ? sums.sqnr_db() : kNone;
  const QString decibels = std::isinf(sqnr) ? QString("exact") : withMinus(QString::number(sqnr, 'f', 2));
  put(kSqnr, sqnr, std::isnan(sqnr) ? QString() : decibels);
  share(kUnderflow, counted ? sums.underflow_share() : kNone);
  share(kClipped, counted ? sums.clipped_share() : kNone);
  share(kClippedBlocks, scaled ? sums.clipped_blocks_share() : kNone);
  number(kAmax, counted ? static_cast<double>(sums.amax) : kNone, 4);
  number(kCrest, scaled ? sums.mean_crest() : kNone, 3);
  number(kRelative, counted ? sums.relative_l2() : kNone, 3);
  put(kCosine, counted ? sums.cosine() : kNone,
      counted && !std::isnan(sums.cosine()) ? withMinus(QString::number(sums.cosine(), 'f', 6)) : QString());
}

Panel::Answer ByExpertPanel::answer() const {
  if (worst_.expert < 0) return {};
  const auto decibels = [](double db) { return withMinus(QString::number(db, 'f', 1)); };
  const QString lowest = QString("Lowest SQNR: expert %1, %2 dB").arg(worst_.expert).arg(decibels(worst_.db));
  return {.question = {}, .answers = {lowest + QString("; all experts %1").arg(decibels(worst_.all_db)), lowest}};
}

void ByExpertPanel::setCurrent(int expert) {
  for (int row = 0; row < table_->rowCount(); ++row)
    if (table_->item(row, kExpert)->data(kValueRole).toInt() == expert) return table_->selectRow(row);
}

// The kind of the captured operand, independent of the open run.
std::optional<Provenance> ByExpertPanel::kind() const {
  return captured_ ? Provenance::measured_here : std::optional<Provenance>();
}

QString ByExpertPanel::status() const {
  return captured_ ? placeName(captured_->place) + QString(", step %1").arg(formatCount(captured_->step)) : QString();
}

ValueTable ByExpertPanel::table() const {
  ValueTable table({{"expert"},
                    {"rows"},
                    {"SQNR", "dB"},
                    {"underflow", "share"},
                    {"clipped", "share"},
                    {"clipped blocks", "share"},
                    {"amax"},
                    {"crest"},
                    {"relative error"},
                    {"cosine"}});
  for (int row = 0; row < table_->rowCount(); ++row) {
    std::vector<TableValue> values{table_->item(row, kExpert)->text().toStdString(),
                                   table_->item(row, kRows)->data(kValueRole).toLongLong()};
    for (int column = kSqnr; column < kColumns; ++column)
      values.push_back(unless_nan(table_->item(row, column)->data(kValueRole).toDouble()));
    table.add_row(values);
  }
  return table;
}

}  // namespace moescope
