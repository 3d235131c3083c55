#include "app/session/routed_shape_dialog.h"

#include <QDialogButtonBox>
#include <QFormLayout>
#include <QLabel>
#include <QPushButton>
#include <QSpinBox>

#include "widgets/look/style.h"

namespace moescope {

namespace {

QSpinBox* numberField(const char* name, int value, int most) {
  auto* field = new QSpinBox;
  field->setObjectName(name);
  field->setRange(0, most);
  field->setSpecialValueText("from the file");
  field->setValue(value);
  return field;
}

}  // namespace

RoutedShapeDialog::RoutedShapeDialog(const QString& why, const RoutedShape& stated, QWidget* parent)
    : QDialog(parent),
      layers_(numberField("routed_layers", stated.layers, static_cast<int>(kMaxImportedLayers))),
      top_k_(numberField("routed_top_k", stated.top_k, 1024)),
      experts_(numberField("routed_experts", stated.experts, static_cast<int>(kMaxImportedExperts))) {
  setAttribute(Qt::WA_DeleteOnClose);
  setObjectName("routed_shape_dialog");
  setWindowTitle("Shape of the routed experts");
  auto* text = new QLabel(why);
  text->setTextFormat(Qt::PlainText);
  text->setWordWrap(true);
  auto* buttons = new QDialogButtonBox(QDialogButtonBox::Open | QDialogButtonBox::Cancel);
  buttons->button(QDialogButtonBox::Open)->setDefault(true);
  buttons->button(QDialogButtonBox::Open)->setProperty(kPrimaryProperty, true);
  auto* form = new QFormLayout(this);
  form->addRow(text);
  form->addRow("&Layers", layers_);
  form->addRow("Experts a &token (top_k)", top_k_);
  form->addRow("&Experts of a layer", experts_);
  form->addRow(buttons);
  connect(buttons, &QDialogButtonBox::accepted, this, &QDialog::accept);
  connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
  resize(460, sizeHint().height());
}

RoutedShape RoutedShapeDialog::stated() const {
  return {layers_->value(), top_k_->value(), experts_->value()};
}

}  // namespace moescope
