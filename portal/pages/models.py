"""Pages whose words are the operator's: privacy and terms."""

from django.db import models


class OperatorsPage(models.Model):
    """An operator's text instead of the site's default text; without a row the default is shown."""

    class Name(models.TextChoices):
        PRIVACY = "privacy", "Privacy"
        TERMS = "terms", "Terms of use"

    name = models.CharField(max_length=20, primary_key=True, choices=Name.choices)
    text = models.TextField(help_text="Markdown. Headings begin at ##: the page has its title already.")
    changed_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return self.get_name_display()
