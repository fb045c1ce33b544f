from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0007_closed_accounts_index")]
    operations = [
        migrations.AlterField(
            model_name="user",
            name="look",
            field=models.CharField(editable=False, max_length=150, unique=True),
        ),
    ]
