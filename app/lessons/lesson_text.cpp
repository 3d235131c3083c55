#include "app/lessons/lesson_text.h"

#include <QApplication>
#include <QClipboard>
#include <QRegularExpression>
#include <QToolButton>

#include "app/look/keep_keys.h"
#include "widgets/look/counted_text.h"
#include "widgets/look/layouts.h"
#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"

namespace moescope {
namespace {

// Adds lines of code, which do not wrap.
void addCode(QBoxLayout* column, const QString& code) {
  auto* card = new CardFrame;
  auto* inside = plainColumn(card);
  inside->setContentsMargins(kSpace8, kSpace4, kSpace4, kSpace8);
  auto* copy = new QToolButton;
  copy->setText("Copy");
  copy->setToolTip("Copies these lines");
  copy->setFocusPolicy(Qt::StrongFocus);
  keepKeys(copy);
  QObject::connect(copy, &QToolButton::clicked, copy, [copy, code] {
    QApplication::clipboard()->setText(code + '\n');
    copy->setText("Copied");
  });
  inside->addWidget(copy, 0, Qt::AlignRight);
  auto* lines = new QLabel(code);
  lines->setObjectName("lesson_code");
  lines->setTextFormat(Qt::PlainText);
  lines->setWordWrap(true);  // only in a page narrower than that at 1280 x 800
  lines->setTextInteractionFlags(Qt::TextSelectableByMouse);
  followFont(card, [card, lines] { lines->setFont(formulaFont(card->font())); });
  inside->addWidget(lines);
  column->addWidget(card);
}

}  // namespace

QString spacedText(const QString& markdown) {
  static const QRegularExpression item("^- ", QRegularExpression::MultilineOption);
  return withUnbrokenUnits(markdown)
      .trimmed()
      .replace("\n\n", QStringLiteral("\n\n\u00a0\n\n"))
      .replace(item, QStringLiteral("\n\u2022\u2002"));  // a list of QLabel has no space between bullet and text
}

void showTextAndCode(QBoxLayout* column, const QString& markdown) {
  clearLayout(column);
  const QStringList parts = markdown.split("```");
  for (qsizetype i = 0; i < parts.size(); ++i) {
    if (i % 2 == 1)
      addCode(column, parts[i].section('\n', 1).trimmed());
    else if (const QString text = spacedText(parts[i]); !text.isEmpty())
      addLessonText(column)->setText(text);
  }
}

QLabel* addLessonText(QBoxLayout* column) {
  auto* label = new QLabel;
  label->setWordWrap(true);
  label->setTextFormat(Qt::MarkdownText);
  label->setTextInteractionFlags(Qt::TextSelectableByMouse);
  column->addWidget(label);
  return label;
}

LessonCard::LessonCard(const QString& heading, QBoxLayout* column)
    : heading_(new QLabel(heading)), inside_(new QVBoxLayout(this)) {
  setObjectName("lesson_card");
  setAccessibleName(heading);
  inside_->setContentsMargins(kSpace12, kSpace8, kSpace12, kSpace12);
  inside_->setSpacing(kSpace8);
  setType(heading_, Type::body, true);
  inside_->addWidget(heading_);
  column->addWidget(this);
}

void LessonCard::setActive(bool active) {
  setAccented(active);
  heading_->setForegroundRole(active ? QPalette::Link : QPalette::WindowText);
}

}  // namespace moescope
