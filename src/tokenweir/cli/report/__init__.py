"""An incident as one page: `report`."""
