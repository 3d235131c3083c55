#include "app/lessons/lesson_figure_list.h"

#include <QGridLayout>
#include <QLabel>
#include <QVBoxLayout>

#include "app/lessons/lesson_text.h"
#include "app/look/icons.h"
#include "widgets/look/layouts.h"
#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"

namespace moescope {

namespace {

QWidget* newFigureRow() {
  auto* row = new QWidget;
  auto* grid = new QGridLayout(row);
  grid->setContentsMargins(0, 0, 0, 0);
  grid->setHorizontalSpacing(kSpace12);
  grid->setVerticalSpacing(0);
  auto* name = new QLabel;
  auto* value = new QLabel;
  auto* note = new QLabel;
  name->setObjectName("figure_name");
  value->setObjectName("figure_value");
  note->setObjectName("figure_note");
  name->setWordWrap(true);
  note->setWordWrap(true);
  setType(note, Type::caption);
  note->setForegroundRole(QPalette::PlaceholderText);
  grid->addWidget(name, 0, 0);
  grid->addWidget(value, 0, 1, Qt::AlignRight | Qt::AlignTop);
  grid->addWidget(note, 1, 0, 1, 2);
  grid->setColumnStretch(0, 1);
  return row;
}

// Colors unexpected values. The note says in words that they are unexpected.
void tint(QLabel* label, const LessonFigureRow& row) {
  QPalette palette = label->parentWidget()->palette();
  const Colors& c = colors(palette);
  const bool unexpected = row.kind == LessonFigureRow::Kind::unexpected;
  const bool judged = unexpected || row.kind == LessonFigureRow::Kind::expected;
  const QRgb ink = judged ? c.ink : c.ink2;
  palette.setColor(QPalette::WindowText, QColor(unexpected ? c.attention : ink));
  label->setPalette(palette);
}

}  // namespace

LessonFigureList::LessonFigureList(QWidget* parent) : QWidget(parent), column_(new QVBoxLayout(this)) {
  column_->setContentsMargins(0, 0, 0, 0);
  column_->setSpacing(kSpace8);
  followFont(this, [this] { fill(); });
  followPalette(this, [this] { fill(); });
}

void LessonFigureList::show(const QList<LessonFigureRow>& rows) {
  if (rows == rows_) return;
  if (rows.size() != rows_.size()) {
    clearLayout(column_);
    for (qsizetype i = 0; i < rows.size(); ++i) column_->addWidget(newFigureRow());
  }
  rows_ = rows;
  fill();
}

void LessonFigureList::fill() {
  for (int i = 0; i < rows_.size(); ++i) {
    QWidget* row = column_->itemAt(i)->widget();
    row->findChild<QLabel*>("figure_name")->setText(rows_[i].name);
    auto* value = row->findChild<QLabel*>("figure_value");
    const bool judged = rows_[i].kind != LessonFigureRow::Kind::missing;
    value->setFont(typeFont(Type::body, judged));
    value->setText(rows_[i].value);
    auto* note = row->findChild<QLabel*>("figure_note");
    note->setText(rows_[i].note);
    note->setVisible(!rows_[i].note.isEmpty());
    tint(value, rows_[i]);
    const bool unexpected = rows_[i].kind == LessonFigureRow::Kind::unexpected;
    note->setForegroundRole(unexpected ? QPalette::WindowText : QPalette::PlaceholderText);
    if (unexpected) tint(note, rows_[i]);
  }
}

}  // namespace moescope
