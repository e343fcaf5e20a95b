"""Control of real optical circuit switches: plans, a journal, drivers and an emulator."""
