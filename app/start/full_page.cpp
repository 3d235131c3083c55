#include "app/start/full_page.h"

#include <QKeyEvent>

#include "app/look/keep_keys.h"
#include "widgets/look/layouts.h"
#include "widgets/look/style.h"
#include "widgets/look/type_scale.h"

namespace moescope {
namespace {

constexpr int kPageWidth = 1200;

}  // namespace

FullPage::FullPage(const char* name, const QString& title, QWidget* parent)
    : QScrollArea(parent),
      heading_(pageText(title, Type::figure)),
      about_(pageText({}, Type::body, true)),
      back_(flatButton({}, "page_back")),
      head_(plainRow(kSpace12)) {
  setObjectName(name);
  setAccessibleName(title);
  setWidgetResizable(true);
  setFrameShape(QFrame::NoFrame);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  viewport()->setAutoFillBackground(false);
  auto* centred = new QWidget;
  auto* page = new QWidget;
  auto* row = new QHBoxLayout(centred);
  row->setContentsMargins(kSpace24, kSpace16, kSpace24, kSpace8);
  row->addStretch(1);
  row->addWidget(page, 1000);
  row->addStretch(1);
  column_ = plainColumn(page, kSpace8);
  head_->addWidget(heading_, 1);
  head_->addWidget(back_);
  column_->addLayout(head_);
  column_->addWidget(about_);
  connect(back_, &QToolButton::clicked, this, &FullPage::backRequested);
  setWidget(centred);
  centred->setAutoFillBackground(false);
  followFont(page, [page] { page->setMaximumWidth(withType(kPageWidth, page->fontMetrics())); });
  FullPage::setBack({});
  hide();
}

void FullPage::setBack(const QString& text) {
  back_->setVisible(!text.isEmpty());
  back_->setText(text);
  back_->setToolTip("Shows the panels (Esc)");
}

void FullPage::setHeading(const QString& heading, const QString& about) {
  heading_->setText(heading);
  about_->setText(about);
}

void FullPage::keyPressEvent(QKeyEvent* event) {
  if (event->key() == Qt::Key_Escape && !back_->isHidden()) return emit backRequested();
  QScrollArea::keyPressEvent(event);
}

void FullPage::showEvent(QShowEvent* event) {
  QScrollArea::showEvent(event);
  emit shown();
}

QLabel* FullPage::pageText(const QString& text, Type type, bool muted) {
  auto* label = new QLabel(text);
  setType(label, type, !muted);
  label->setWordWrap(true);
  if (muted) label->setForegroundRole(QPalette::PlaceholderText);
  return label;
}

QPushButton* FullPage::pageButton(const QString& text, const char* name, bool primary) {
  auto* made = new QPushButton(text);
  made->setObjectName(name);
  made->setProperty(kPrimaryProperty, primary);
  keepKeys(made);
  return made;
}

QToolButton* FullPage::flatButton(const QString& text, const char* name) {
  auto* made = new QToolButton;
  made->setText(text);
  made->setObjectName(name);
  made->setFocusPolicy(Qt::StrongFocus);
  keepKeys(made);
  return made;
}

}  // namespace moescope
