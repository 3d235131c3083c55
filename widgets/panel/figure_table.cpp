#include "widgets/panel/figure_table.h"

#include <QHeaderView>
#include <QStyledItemDelegate>
#include <algorithm>

#include "core/numerics/index.h"
#include "widgets/look/tokens.h"

namespace moescope {
namespace {

constexpr int kFormsRole = Qt::UserRole;
constexpr int kHighestFigureRow = 48;

class FormsDelegate : public QStyledItemDelegate {
 public:
  using QStyledItemDelegate::QStyledItemDelegate;

 protected:
  void initStyleOption(QStyleOptionViewItem* option, const QModelIndex& index) const override {
    QStyledItemDelegate::initStyleOption(option, index);
    option->text = static_cast<const FigureTable*>(parent())->shownText(index.row(), index.column());
    option->textElideMode = Qt::ElideNone;
  }
};

}  // namespace

FigureTable::FigureTable(const QStringList& headers, QWidget* parent)
    : QTableWidget(0, to_int(headers.size()), parent) {
  setHorizontalHeaderLabels(headers);
  setItemDelegate(new FormsDelegate(this));
  setFrameShape(QFrame::NoFrame);
  setShowGrid(false);
  setWordWrap(false);
  setEditTriggers(NoEditTriggers);
  setSelectionMode(NoSelection);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  verticalHeader()->hide();
  horizontalHeader()->setSectionResizeMode(QHeaderView::Stretch);
  horizontalHeader()->setMinimumSectionSize(1);
  horizontalHeader()->setDefaultAlignment(Qt::AlignRight | Qt::AlignBottom);
  horizontalHeader()->setHighlightSections(false);
  followFont(this, [this] {
    horizontalHeader()->setFont(typeFont(Type::caption));
    spreadRows();
  });
  for (auto signal : {&QAbstractItemModel::rowsInserted, &QAbstractItemModel::rowsRemoved})
    connect(model(), signal, this, &FigureTable::spreadRows);
}

int FigureTable::leastRowHeight() const {
  return withType(kFlatHeight, fontMetrics());
}

void FigureTable::resizeEvent(QResizeEvent* event) {
  QTableWidget::resizeEvent(event);
  spreadRows();
}

// Rows of a high table are farther apart; a low table shows whole rows.
void FigureTable::spreadRows() {
  const int room =
      viewport()->height() / std::clamp(viewport()->height() / leastRowHeight(), 1, std::max(1, rowCount()));
  verticalHeader()->setDefaultSectionSize(
      std::clamp(room, leastRowHeight(), withType(kHighestFigureRow, fontMetrics())));
}

void FigureTable::setFigure(int row, int column, const QStringList& forms, const QString& tip, bool strong) {
  auto* item = new QTableWidgetItem(forms.value(0));
  item->setData(kFormsRole, forms);
  item->setTextAlignment(Qt::AlignRight | Qt::AlignVCenter);
  item->setToolTip(tip.isEmpty() ? forms.value(0) : tip);
  if (strong) item->setFont(semibold(font()));
  setItem(row, column, item);
}

void FigureTable::setName(int row, const QString& name, const QString& tip, bool strong) {
  setFigure(row, 0, {name}, tip, strong);
  item(row, 0)->setTextAlignment(Qt::AlignLeft | Qt::AlignVCenter);
  horizontalHeader()->setSectionResizeMode(0, QHeaderView::Fixed);
  horizontalHeaderItem(0)->setTextAlignment(Qt::AlignLeft | Qt::AlignBottom);
  const int width = QFontMetrics(semibold(font())).horizontalAdvance(name) + 2 * kSpace8;
  setColumnWidth(0, row == 0 ? width : std::max(columnWidth(0), width));
}

QString FigureTable::shownText(int row, int column) const {
  const auto text = [this](int row, int column, qsizetype form) {
    const QTableWidgetItem* at = item(row, column);
    const QStringList forms = at ? at->data(kFormsRole).toStringList() : QStringList();
    return forms.value(std::min(form, forms.size() - 1));
  };
  const auto fits = [&](int row, int column, qsizetype form) {
    const QTableWidgetItem* at = item(row, column);
    return !at || QFontMetrics(at->font()).horizontalAdvance(text(row, column, form)) <= columnWidth(column) - kSpace8;
  };
  qsizetype form = 0;
  for (int r = 0; r < rowCount(); ++r)
    for (int c = 0; c < columnCount(); ++c)
      if (!fits(r, c, 0)) form = 1;
  return fits(row, column, form) ? text(row, column, form) : QString();
}

}  // namespace moescope
