#include "widgets/panel/figure_table.h"

#include <QApplication>
#include <QHeaderView>
#include <QStyledItemDelegate>

#include "widgets/look/fitted_text.h"
#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"

namespace moescope {
namespace {

constexpr int kFormsRole = Qt::UserRole;

QString fittingForm(const QModelIndex& index, const QFontMetrics& metrics, int width) {
  return fittingText(index.data(kFormsRole).toStringList(), metrics, width - 2 * kSpace4);
}

class FormsDelegate : public QStyledItemDelegate {
 public:
  using QStyledItemDelegate::QStyledItemDelegate;

 protected:
  void initStyleOption(QStyleOptionViewItem* option, const QModelIndex& index) const override {
    QStyledItemDelegate::initStyleOption(option, index);
    option->text = fittingForm(index, QFontMetrics(option->font), option->rect.width());
    option->textElideMode = Qt::ElideNone;
  }
};

}  // namespace

FigureTable::FigureTable(const QStringList& headers, QWidget* parent)
    : QTableWidget(0, static_cast<int>(headers.size()), parent) {
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
    horizontalHeader()->setFont(typeFont(QApplication::font(), Type::caption));
    verticalHeader()->setDefaultSectionSize(withType(kFlatHeight, fontMetrics()));
  });
}

void FigureTable::setFigure(int row, int column, const QStringList& forms, const QString& tip, bool strong) {
  auto* item = new QTableWidgetItem(forms.value(0));
  item->setData(kFormsRole, forms);
  item->setTextAlignment(Qt::AlignRight | Qt::AlignVCenter);
  item->setToolTip(tip.isEmpty() ? forms.value(0) : tip);
  if (strong) item->setFont(semibold(font()));
  setItem(row, column, item);
}

QString FigureTable::shownText(int row, int column) const {
  const QTableWidgetItem* at = item(row, column);
  return at ? fittingForm(model()->index(row, column), QFontMetrics(at->font()), columnWidth(column)) : QString();
}

}  // namespace moescope
